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

// slots is how many clusters a machine has room for at once, and maxNodes how many
// nodes each may have: addresses and names are made of the two numbers.
const (
	slots    = 16
	maxNodes = 16
)

// lockDir has a lock for each slot of the machine.
const lockDir = "/run/lock"

//go:embed sweep.sh
var sweepScript string

// slot is one of the machine's places for a cluster. The numbers of slots decide about
// addresses, so that clusters that run at once do not meet.
type slot struct {
	number int
	guard  *exec.Cmd
	life   io.Closer // the guard sweeps when this is closed, as it is with the process
}

// claimSlot takes the first slot that nobody has, removes what somebody may have left
// there, and starts the guard that will remove what we leave.
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
		defer lock.Close() // the guard has it too, for as long as it runs
		if out, err := exec.CommandContext(ctx, "bash", "-c", sweepScript, "sweep", "slot", strconv.Itoa(number)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("remove what is left of the cluster in slot %d: %w: %s", number, err, out)
		}
		return guardSlot(number, lock)
	}
	return nil, fmt.Errorf("find a slot: all %d are taken; stop a cluster", slots)
}

// guardSlot starts the guard, in a session of its own: what ends this process does not
// end it.
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

// free has the guard sweep the slot, and waits until it has.
func (s *slot) free() error {
	err := s.life.Close()
	if waited := s.guard.Wait(); waited != nil {
		err = errors.Join(err, fmt.Errorf("sweep slot %d: %w", s.number, waited))
	}
	return err
}

// The names and addresses of a slot. Nothing but the nodes is there, and no packet
// leaves the machine.

// bridge is the network that the nodes of a cluster share with the machine.
func (s *slot) bridge() string { return fmt.Sprintf("scn%d", s.number) }

// link is the machine's end of a node's network.
func (s *slot) link(node int) string { return fmt.Sprintf("scn%d-%d", s.number, node) }

// gateway is the machine's address in the network of the nodes.
func (s *slot) gateway() string { return fmt.Sprintf("10.99.%d.1", s.number) }

// address is a node's.
func (s *slot) address(node int) string { return fmt.Sprintf("10.99.%d.%d", s.number, 11+node) }

// podRange is where the pods of a node have their addresses.
func (s *slot) podRange(node int) string {
	return fmt.Sprintf("10.88.%d.0/24", s.number*maxNodes+node)
}

// cgroup is the control group that all of a node's are in, from the root of each
// hierarchy.
func (s *slot) cgroup(node string) string {
	return fmt.Sprintf("/supercargo-nodes/%d/%s", s.number, node)
}
