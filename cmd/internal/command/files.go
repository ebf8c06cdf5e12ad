package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// CheckWritable returns an error if the file of a flag cannot be written. It runs before a long
// computation, not after.
func CheckWritable(flag, path string) error {
	if path == "" {
		return nil
	}
	if is, err := os.Stat(path); err == nil && is.IsDir() {
		return fmt.Errorf("%s: %s is a directory: must be a file", flag, path)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// UntilDone returns a reader that fails when ctx ends, even during a read.
func UntilDone(ctx context.Context, in io.Reader) io.Reader {
	out, to := io.Pipe()
	go func() {
		_, err := io.Copy(to, in)
		to.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { to.CloseWithError(ctx.Err()) })
	return out
}

// ReadBounded reads a file that is not larger than limit, in bytes.
func ReadBounded(name string, in io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%s: is larger than %d bytes", name, limit)
	}
	return text, nil
}

// WriteWhole writes a file atomically. It follows symbolic links, and writes directly to a path that is
// not a regular file, such as a pipe.
func WriteWhole(path string, write func(io.Writer) error) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if is, err := os.Stat(path); err == nil && !is.Mode().IsRegular() {
		return writeThrough(path, write)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	buffered := bufio.NewWriter(f)
	if err := write(buffered); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// writeThrough writes to an existing path.
func writeThrough(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// PrintAs prints a document as JSON or YAML, or else as text.
func PrintAs(w io.Writer, output string, document interface{ Write(io.Writer) error }) error {
	if done, err := WriteStructured(w, output, document); done {
		return err
	}
	return document.Write(w)
}

// WriteStructured writes a document if output is json or yaml, and reports whether it is.
func WriteStructured(w io.Writer, output string, document any) (done bool, err error) {
	switch output {
	case "json":
		return true, jsondoc.Write(w, document)
	case "yaml":
		text, err := yaml.Marshal(document)
		if err != nil {
			return true, fmt.Errorf("write YAML: %w", err)
		}
		_, err = w.Write(text)
		return true, err
	}
	return false, nil
}

// ReadInput reads the file of -f, or standard input if it is "-"; a read of that fails when ctx ends. read is called with
// the name of what it reads, for errors.
func ReadInput(ctx context.Context, path string, stdin io.Reader, read func(name string, in io.Reader) error) error {
	if path == "-" {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return read(InputName(path), UntilDone(ctx, stdin))
	}
	return ReadNamed("-f", path, func(in io.Reader) error { return read(path, in) })
}

// InputName returns the name of the file of -f for messages.
func InputName(path string) string {
	if path == "-" {
		return "stdin"
	}
	return path
}

// ReadNamed opens and reads the file of a flag.
func ReadNamed(flag, path string, read func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	defer f.Close()
	return read(f)
}

// Lower returns the names in lower case.
func Lower(names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = strings.ToLower(name)
	}
	return all
}

// OpenPage opens a page in a browser, or says why not and where the page is. It returns within seconds.
func OpenPage(ctx context.Context, address string, stderr io.Writer) {
	if err := openBrowser(ctx, address, browserPatience); err != nil {
		fmt.Fprintf(stderr, "no browser was opened: %v: open %s in a browser\n", err, address)
	}
}

// browserPatience is how long a program that opens a browser may take to report that it cannot. xdg-open without a
// browser ends at once; one that is a browser itself runs on.
const browserPatience = 3 * time.Second

// openBrowser opens a page with the system's default browser. It returns an error if there is no program for that, or
// if the program fails within the time.
func openBrowser(ctx context.Context, address string, within time.Duration) error {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], append(command[1:], address)...)
	if err := cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("there is no program %s", command[0])
		}
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // also reaps the process when it ends later
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("%s failed: %w", command[0], err)
		}
	case <-time.After(within):
	case <-ctx.Done():
	}
	return nil
}
