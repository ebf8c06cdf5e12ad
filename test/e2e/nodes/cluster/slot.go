//go:build linux

package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// slots is the number of clusters that can run on a machine at the same time, and maxNodes the number of
// nodes of each. Addresses and names are derived from the two numbers.
const (
	slots    = 16
	maxNodes = 16
)

// lockDir contains a lock for each slot of the machine.
const lockDir = "/run/lock"

//go:embed sweep.sh
var sweepScript string

// slot is one of the machine's places for a cluster. Its number determines addresses, so that concurrent
// clusters do not conflict.
type slot struct {
	number int
	guard  *exec.Cmd
	life   io.Closer // the guard sweeps when this is closed, also by the end of this process
}

// claimSlot claims the first slot that no cluster uses, removes leftovers in it, and starts the guard that
// will remove what this cluster leaves.
func claimSlot(ctx context.Context) (*slot, error) {
	for number := range slots {
		lock, err := os.OpenFile(filepath.Join(lockDir, fmt.Sprintf("supercargo-nodes-%d", number)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock slot %d: %w", number, err)
		}
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			lock.Close()
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock slot %d: %w", number, err), lock.Close())
		}
		defer lock.Close() // the guard inherits the lock, and holds it while it runs
		if out, err := exec.CommandContext(ctx, "bash", "-c", sweepScript, "sweep", "slot", strconv.Itoa(number)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("remove what is left of the cluster in slot %d: %w: %s", number, err, out)
		}
		return guardSlot(number, lock)
	}
	return nil, fmt.Errorf("find a slot: all %d are taken; stop a cluster", slots)
}

// guardSlot starts the guard in its own session, so that the end of this process does not end it.
func guardSlot(number int, lock *os.File) (*slot, error) {
	life, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("guard slot %d: %w", number, err)
	}
	defer life.Close()
	guard := exec.Command("bash", "-c", sweepScript, "sweep", "guard", strconv.Itoa(number))
	guard.Dir = "/"
	guard.Stdin = life
	guard.Stderr = os.Stderr
	guard.ExtraFiles = []*os.File{lock}
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := guard.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("guard slot %d: %w", number, err), ours.Close())
	}
	return &slot{number: number, guard: guard, life: ours}, nil
}

// free waits until the guard has swept the slot.
func (s *slot) free() error {
	err := s.life.Close()
	if waited := s.guard.Wait(); waited != nil {
		err = errors.Join(err, fmt.Errorf("sweep slot %d: %w", s.number, waited))
	}
	return err
}

// The names and addresses of a slot. Only the nodes use this network, and no packet leaves the machine.

// bridge returns the name of the bridge between the nodes of a cluster and the machine.
func (s *slot) bridge() string { return fmt.Sprintf("scn%d", s.number) }

// link returns the name of the machine's end of a node's network link.
func (s *slot) link(node int) string { return fmt.Sprintf("scn%d-%d", s.number, node) }

// gateway returns the machine's address in the network of the nodes.
func (s *slot) gateway() string { return fmt.Sprintf("10.99.%d.1", s.number) }

// address returns the address of a node.
func (s *slot) address(node int) string { return fmt.Sprintf("10.99.%d.%d", s.number, 11+node) }

// podRange returns the IP range of the pods of a node.
func (s *slot) podRange(node int) string {
	return fmt.Sprintf("10.88.%d.0/24", s.number*maxNodes+node)
}

// cgroup returns the control group that contains all control groups of a node, relative to the root of each
// hierarchy.
func (s *slot) cgroup(node string) string {
	return fmt.Sprintf("/supercargo-nodes/%d/%s", s.number, node)
}
