package ociruntime

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"supercargo.dev/supercargo/descheduler/checkpoint/criulog"
	"supercargo.dev/supercargo/descheduler/checkpoint/podvolumes"
	"supercargo.dev/supercargo/descheduler/checkpoint/restoreapi"
)

const (
	// patience bounds the wait for the agent. The kubelet waits for two minutes for a container to start, and the
	// restore needs some of them.
	patience = 90 * time.Second
	// restoredMark is a file in runc's folder of a container that was restored and waits for its start. runc removes it
	// with the folder.
	restoredMark = "supercargo-restored"
	// defaultRoot is where runc keeps its state without the flag --root.
	defaultRoot = "/run/runc"
)

// Config says where the program finds what it needs.
type Config struct {
	// Runc is the path of runc.
	Runc string `json:"runc"`
	// Folder is the folder that it shares with the node's agent.
	Folder restoreapi.Folder `json:"folder"`
}

// Defaults are those of a program without a configuration.
var Defaults = Config{Runc: "runc", Folder: restoreapi.DefaultFolder}

// Load reads the configuration, a JSON file beside the program that has its name and the ending .json. A missing file, or
// a field that is missing in it, means the default.
func Load(program string) (Config, error) {
	c := Defaults
	text, err := os.ReadFile(program + ".json")
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return Defaults, fmt.Errorf("read the configuration of %s: %w", program, err)
	}
	return c, nil
}

// Run carries out a command line of runc. It does not return if runc takes over, which replaces this process.
func (c Config) Run(args []string) error {
	call, ok := Parse(args)
	switch {
	case ok && call.Command == "create" && c.Folder.Any():
		b, err := readBundle(call.Bundle)
		if err != nil || !c.Folder.Has(b.Pod) {
			break // runc judges a specification that cannot be read
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err = c.restore(ctx, call, b)
		cancel()
		if err != nil {
			err = fmt.Errorf("restore container %s of pod %s: %w", b.Container, b.Pod, err)
			call.report(err)
			return err
		}
		return nil
	case ok && call.Command == "start" && call.restored():
		return c.become(call.on("resume"))
	}
	return c.become(args)
}

// become replaces this process with runc.
func (c Config) become(args []string) error {
	path, err := exec.LookPath(c.Runc)
	if err != nil {
		return fmt.Errorf("find runc: %w", err)
	}
	return fmt.Errorf("run %s: %w", path, syscall.Exec(path, append([]string{path}, args...), os.Environ()))
}

// restore does what create does for other containers: afterwards the container exists, and does not run. It waits for the
// agent until ctx ends.
func (c Config) restore(ctx context.Context, call Call, b bundle) error {
	answer, err := c.Folder.Ask(ctx, restoreapi.Request{Pod: b.Pod, Container: b.Container, ID: call.ID}, pause)
	if err != nil {
		return err
	}
	if answer.Refused != "" {
		return errors.New(answer.Refused)
	}
	if err := fill(b.Rootfs, answer.Changes); err != nil {
		return err
	}
	if err := fillVolumes(call.Bundle, b.Pod, answer.Volumes); err != nil {
		return err
	}
	if err := continueLog(answer.EarlierLog, answer.Log); err != nil {
		return err
	}
	work := filepath.Join(call.Bundle, "restore")
	if err := os.MkdirAll(work, 0o700); err != nil {
		return err
	}
	if err := c.runc(call.restore(answer.Images, work)); err != nil {
		return fmt.Errorf("%w: %s", err, criulog.Errors(filepath.Join(work, "restore.log")))
	}
	err = c.runc(call.on("pause"))
	if err == nil {
		err = os.WriteFile(call.mark(), nil, 0o600)
	}
	if err != nil { // it must not run on
		err = errors.Join(err, c.runc(call.on("delete", "--force")))
	}
	return err
}

// restore returns the arguments with which runc restores the container that a call creates. Without --file-locks, CRIU would
// not restore the locks that the processes hold, and they would not notice.
func (c Call) restore(images, work string) []string {
	args := append(slices.Clone(c.Globals), "restore", "--detach", "--no-subreaper", "--file-locks", "--image-path", images, "--work-path", work)
	for _, flag := range []struct{ name, value string }{{"--bundle", c.Bundle}, {"--pid-file", c.PIDFile}, {"--console-socket", c.ConsoleSocket}} {
		if flag.value != "" {
			args = append(args, flag.name, flag.value)
		}
	}
	if c.NoPivot {
		args = append(args, "--no-pivot")
	}
	return append(args, c.ID)
}

// on returns the arguments of another command for the same container.
func (c Call) on(command ...string) []string {
	return slices.Concat(c.Globals, command, []string{c.ID})
}

// mark returns the path of the file that says that a container was restored.
func (c Call) mark() string {
	root := c.Root
	if root == "" {
		root = defaultRoot
	}
	return filepath.Join(root, c.ID, restoredMark)
}

// restored reports whether the container was restored and has not been started.
func (c Call) restored() bool {
	if c.ID == "" || c.ID != filepath.Base(c.ID) {
		return false // runc refuses such a name
	}
	_, err := os.Lstat(c.mark())
	return err == nil
}

// runc runs runc, which ends with this process.
func (c Config) runc(args []string) error {
	cmd := exec.Command(c.Runc, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the signal is sent when the thread ends that started runc
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run runc: %w", err)
	}
	return nil
}

// report writes an error to runc's log, from which containerd reads it.
func (c Call) report(failed error) {
	if c.Log == "" {
		return
	}
	f, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return // containerd reads the output too
	}
	defer f.Close()
	if c.LogFormat != "json" {
		fmt.Fprintf(f, "level=error msg=%q\n", failed.Error())
		return
	}
	_ = json.NewEncoder(f).Encode(map[string]string{"level": "error", "msg": failed.Error(), "time": time.Now().UTC().Format(time.RFC3339)})
}

// fill applies the files that the container had changed.
func fill(rootfs, changes string) error {
	if changes == "" {
		return nil
	}
	layer, err := os.Open(changes)
	if err != nil {
		return fmt.Errorf("read the files that the container changed: %w", err)
	}
	defer layer.Close()
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return fmt.Errorf("open the root of the container: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing was written to the folder itself
	return applyChanges(bufio.NewReaderSize(layer, 256<<10), root)
}

// fillVolumes fills what the kubelet has made for the new pod with the files of the old one. Only folders that the kubelet
// and containerd make for a pod alone are written to, whatever the answer says.
func fillVolumes(bundle, pod string, given []restoreapi.Volume) error {
	if len(given) == 0 {
		return nil
	}
	mounts, err := readMounts(bundle)
	if err != nil {
		return err
	}
	here := podvolumes.Of(mounts, pod)
	for _, volume := range given {
		at := slices.IndexFunc(here, func(v podvolumes.Volume) bool { return v.Destination == volume.Destination })
		if at < 0 {
			return fmt.Errorf("the new pod has no volume of its own at %s", volume.Destination)
		}
		if err := fillFrom(here[at].Source, volume.Files); err != nil {
			return fmt.Errorf("volume at %s: %w", volume.Destination, err)
		}
	}
	return nil
}

func fillFrom(dir, files string) error {
	archive, err := os.Open(files)
	if err != nil {
		return err
	}
	defer archive.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing was written to the folder itself
	return fillVolume(bufio.NewReaderSize(archive, 256<<10), root)
}

// continueLog puts the earlier output of a container before that of its continuation.
func continueLog(earlier, log string) error {
	if earlier == "" || log == "" {
		return nil
	}
	from, err := os.Open(earlier)
	if err != nil {
		return fmt.Errorf("copy the earlier output: %w", err)
	}
	defer from.Close()
	to, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("copy the earlier output: %w", err)
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("copy the earlier output: %w", err)
	}
	return nil
}

// pause waits for a duration, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
