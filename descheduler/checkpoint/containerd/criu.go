package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/runc/options"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/criulog"
)

const (
	// dumpPoll is how often the progress of CRIU is checked, and dumpStall how long it may write
	// nothing, neither memory nor a line of its log. A disk does not delay it: it writes to memory.
	dumpPoll  = time.Second
	dumpStall = 30 * time.Second
	// endGrace is how long a dump may continue before CRIU and runc are killed. Most dumps end within it. What CRIU injects
	// into a process when it begins leaves no trace once CRIU has ended by itself. If CRIU is killed at that moment, the
	// process continues with it and crashes. A CRIU that hangs later only writes pages, and can be killed.
	endGrace = 3 * time.Second
	// endPatience is how long CRIU and runc may take to end once they are killed.
	endPatience = 10 * time.Second
	// endPoll is how often that is checked.
	endPoll = 20 * time.Millisecond
)

// workOf returns the working directory of CRIU for a dump into the folder dir.
func workOf(dir string) string { return filepath.Join(dir, "work") }

// criu dumps the processes. If CRIU makes no progress, or ctx ends, it ends CRIU and then returns:
// containerd answers no other request for the container before, so it could not be thawed.
func (c *Client) criu(ctx context.Context, k checkpoint.Container, dir, images, work string) error {
	value, err := proto.Marshal(&options.CheckpointOptions{ImagePath: images, WorkPath: work, FileLocks: true})
	if err != nil {
		return fmt.Errorf("dump %s: %w", k, err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.tasks.Checkpoint(context.WithoutCancel(ctx), &tasksapi.CheckpointTaskRequest{
			ContainerID: k.ID,
			Options:     &anypb.Any{TypeUrl: string((&options.CheckpointOptions{}).ProtoReflect().Descriptor().FullName()), Value: value},
		})
		done <- err
	}()
	stopped, err := c.await(ctx, done, images, work)
	if stopped {
		if err := c.interrupt(context.WithoutCancel(ctx), dir); err != nil {
			return fmt.Errorf("dump %s: %w", k, err)
		}
	}
	if err == nil || passing(err) || errors.Is(err, ctx.Err()) {
		return wrap(err, "dump %s", k)
	}
	why := criulog.Errors(filepath.Join(work, "dump.log"))
	if stopped {
		return checkpoint.Fail(v1alpha1.MigrationReasonDumpFailed, "dump %s: CRIU was ended because it had written nothing for %s: %s", k, dumpStall, why)
	}
	if strings.Contains(why, "No space left") {
		return checkpoint.Fail(v1alpha1.MigrationReasonNoRoom, "dump %s: CRIU reports that no space is left: raise --work-size of the node agents if the work folder is full", k)
	}
	return checkpoint.Fail(v1alpha1.MigrationReasonDumpFailed, "dump %s: CRIU failed: %s (%v)", k, why, err)
}

// errStalled means that CRIU writes nothing.
var errStalled = errors.New("no progress")

// await returns the result of a dump. stopped means that CRIU has to be ended, because of the error.
func (c *Client) await(ctx context.Context, done <-chan error, images, work string) (stopped bool, err error) {
	last, since := int64(-1), c.Clock.Now()
	for {
		select {
		case err := <-done:
			return false, err
		case <-ctx.Done():
			return true, ctx.Err()
		case <-c.Clock.After(dumpPoll):
		}
		switch written := bytesBelow(images) + bytesBelow(work); {
		case written != last:
			last, since = written, c.Clock.Now()
		case c.Clock.Since(since) >= dumpStall:
			return true, errStalled
		}
	}
}

// bytesBelow is treeBytes of a folder that changes meanwhile.
func bytesBelow(dir string) int64 {
	n, err := treeBytes(dir)
	if err != nil {
		return 0
	}
	return n
}

// Interrupt ends a dump into the folder dir that still runs, perhaps for an agent that was killed.
func (c *Client) Interrupt(ctx context.Context, _ checkpoint.Container, dir string) error {
	return c.interrupt(ctx, dir)
}

// interrupt waits until runc and CRIU have ended, and kills them after [endGrace]. A process that CRIU had stopped to dump
// it continues, unless its control group is frozen.
func (c *Client) interrupt(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, endGrace+endPatience)
	defer cancel()
	for began := c.Clock.Now(); ; {
		pids, err := dumping(c.Proc, dir)
		if err != nil || len(pids) == 0 {
			return err
		}
		last := pids[0]
		if c.Clock.Since(began) < endGrace {
			pids = nil
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d, which takes a dump: %w", pid, err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d, which takes a dump, does not end although it was killed: check whether it waits for a disk or a network file system", last)
		case <-c.Clock.After(endPoll):
		}
	}
}

// dumping returns the processes that take a dump into the folder dir: CRIU, whose working directory
// is in it, and runc, which is told of it. proc is the /proc folder to use.
func dumping(proc, dir string) ([]int, error) {
	work := workOf(dir)
	at, err := os.Stat(work)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for processes that take a dump: %w", err)
	}
	all, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("look for processes that take a dump: %w", err)
	}
	var found []int
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// Not every process can be read: it may have ended.
		here, err := os.Stat(filepath.Join(proc, entry.Name(), "cwd"))
		if err == nil && os.SameFile(here, at) {
			found = append(found, pid)
			continue
		}
		line, err := os.ReadFile(filepath.Join(proc, entry.Name(), "cmdline"))
		if err == nil && slices.Contains(strings.Split(string(line), "\x00"), work) {
			found = append(found, pid)
		}
	}
	return found, nil
}
