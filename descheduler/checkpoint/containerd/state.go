package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"google.golang.org/grpc/codes"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
)

// State returns the container's state. If the container with this ID belongs to another pod, this
// container is gone.
func (c *Client) State(ctx context.Context, k checkpoint.Container) (checkpoint.State, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := c.own(ctx, k); err != nil {
		if checkpoint.AsFailure(err) != nil {
			return checkpoint.Gone, nil
		}
		return checkpoint.Unknown, err
	}
	_, state, err := c.task(ctx, k)
	return state, err
}

// task returns the first process of a container, and its state.
//
// Of a container that runs, the CRI plugin knows the process, and its control group whether it is
// frozen. Only for others is the shim asked, which does not answer while runc takes a checkpoint,
// and not at all if CRIU hangs.
func (c *Client) task(ctx context.Context, k checkpoint.Container) (pid uint32, state checkpoint.State, err error) {
	if pid, err = c.running(ctx, k); err != nil {
		return 0, checkpoint.Unknown, err
	}
	state = checkpoint.Running
	if pid == 0 {
		if pid, state, err = c.shimState(ctx, k); err != nil || state != checkpoint.Running {
			return pid, state, err
		}
	}
	f, err := c.freezerOf(pid, k.ID)
	if err != nil && !ended(err) {
		return pid, checkpoint.Running, nil // it was never frozen: Freeze needs this freezer
	}
	frozen := false
	if err == nil {
		frozen, err = f.frozen()
	}
	switch {
	case ended(err): // the CRI plugin will notice
		return c.shimState(ctx, k)
	case err != nil:
		return 0, checkpoint.Unknown, fmt.Errorf("get the state of %s: %w", k, err)
	case frozen:
		state = checkpoint.Frozen
	}
	return pid, state, nil
}

// ended reports whether an error of a control group means that it is gone.
func ended(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

// running returns the first process of a container that runs according to the CRI plugin, and 0 if
// it is in another state.
func (c *Client) running(ctx context.Context, k checkpoint.Container) (uint32, error) {
	answer, err := c.runtime.ContainerStatus(ctx, &criapi.ContainerStatusRequest{ContainerId: k.ID, Verbose: true})
	switch {
	case notFound(err):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("get the state of %s from containerd: %w", k, err)
	case answer.GetStatus().GetState() != criapi.ContainerState_CONTAINER_RUNNING:
		return 0, nil
	}
	var info struct {
		Pid uint32 `json:"pid"`
	}
	if err := json.Unmarshal([]byte(answer.GetInfo()["info"]), &info); err != nil {
		return 0, fmt.Errorf("read the process of %s from the status of containerd: %w", k, err)
	}
	return info.Pid, nil
}

// shimState returns the first process of a container, and its state, as its shim knows them.
func (c *Client) shimState(ctx context.Context, k checkpoint.Container) (pid uint32, state checkpoint.State, err error) {
	answer, err := c.tasks.Get(ctx, &tasksapi.GetRequest{ContainerID: k.ID})
	if notFound(err) {
		return 0, checkpoint.Gone, nil
	}
	if err != nil {
		return 0, checkpoint.Unknown, fmt.Errorf("get the state of %s from containerd: %w", k, err)
	}
	process := answer.GetProcess()
	switch process.GetStatus() {
	case task.Status_RUNNING, task.Status_CREATED:
		state = checkpoint.Running
	case task.Status_PAUSED, task.Status_PAUSING:
		state = checkpoint.Frozen
	case task.Status_STOPPED:
		state = checkpoint.Gone
	}
	return process.GetPid(), state, nil
}

// Freeze freezes the container's control group.
func (c *Client) Freeze(ctx context.Context, k checkpoint.Container) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := c.own(ctx, k); err != nil {
		return err
	}
	pid, state, err := c.task(ctx, k)
	switch {
	case err != nil:
		return err
	case state == checkpoint.Gone:
		return checkpoint.Fail(v1alpha1.MigrationReasonContainerGone, "%s has ended", k)
	case state == checkpoint.Frozen:
		return nil
	case state == checkpoint.Unknown:
		return fmt.Errorf("freeze %s: its state is unknown", k)
	}
	f, err := c.freezerOf(pid, k.ID)
	if err == nil {
		err = f.freeze(ctx, c.Clock)
	}
	if ended(err) {
		return fmt.Errorf("freeze %s: %w", k, err) // the next state says that it has ended
	}
	if err != nil {
		return checkpoint.Fail(v1alpha1.MigrationReasonFreezeFailed, "%s cannot be frozen: %v: check the freezer of its control group", k, err)
	}
	return nil
}

// Thaw thaws the control group.
func (c *Client) Thaw(ctx context.Context, k checkpoint.Container) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := c.own(ctx, k); err != nil {
		return err
	}
	return c.thaw(ctx, k)
}

// thaw thaws a container of the pod, in whichever way it is frozen. A task that an agent of an older
// release, or somebody else, has paused is resumed, so that its shim knows.
func (c *Client) thaw(ctx context.Context, k checkpoint.Container) error {
	pid, state, err := c.task(ctx, k)
	if err != nil || state != checkpoint.Frozen {
		return err
	}
	if _, known, err := c.shimState(ctx, k); err == nil && known == checkpoint.Frozen {
		if _, err := c.tasks.Resume(ctx, &tasksapi.ResumeTaskRequest{ContainerID: k.ID}); err != nil && passing(err) {
			return fmt.Errorf("resume %s: %w", k, err)
		}
	}
	f, err := c.freezerOf(pid, k.ID)
	if err == nil {
		err = f.thaw()
	}
	if err != nil && !ended(err) {
		return fmt.Errorf("thaw %s: %w", k, err)
	}
	switch _, state, err := c.task(ctx, k); {
	case err != nil:
		return err
	case state == checkpoint.Frozen:
		return fmt.Errorf("thaw %s: it is still frozen", k)
	}
	return nil
}

// killPoll is how often to ask whether a killed container has ended.
const killPoll = 20 * time.Millisecond

// Kill sends SIGKILL to all processes while they are frozen, so that they execute no further
// instruction, and then lets them die.
func (c *Client) Kill(ctx context.Context, k checkpoint.Container) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := c.own(ctx, k); err != nil {
		return err
	}
	_, err := c.tasks.Kill(ctx, &tasksapi.KillRequest{ContainerID: k.ID, Signal: uint32(syscall.SIGKILL), All: true})
	if err != nil && !notFound(err) && !isCode(err, codes.FailedPrecondition) {
		return fmt.Errorf("kill %s: %w", k, err)
	}
	signalled := err == nil
	for {
		_, state, err := c.task(ctx, k)
		if err != nil || state == checkpoint.Gone {
			return err
		}
		if state == checkpoint.Frozen && signalled {
			// Some versions of runc thaw what they kill. A frozen process with a pending SIGKILL
			// does not run when it is thawed.
			if err := c.thaw(ctx, k); err != nil {
				return fmt.Errorf("end %s after killing it: %w", k, err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s has ended: %w", k, context.Cause(ctx))
		case <-c.Clock.After(killPoll):
		}
	}
}
