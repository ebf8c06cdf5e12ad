// Package restoreapi is how the container runtime of a node asks the node's agent for the checkpoint of a container that
// it is about to create.
//
// The two share a folder that only root can enter. It has one file for each pod whose checkpoint the agent expects or
// has, and a socket. The runtime looks for the file first, so containers of other pods start without the agent. With a
// file, it sends one [Request] over the socket and receives one [Answer], each a line of JSON.
package restoreapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// DefaultFolder is the shared folder if neither side is configured otherwise. It is in memory: after a reboot no
	// file of an earlier time is left.
	DefaultFolder = "/run/supercargo/restore"
	// Version is the version of the messages. The agent refuses others.
	Version = 1
	// maxMessage bounds a message, in bytes. The largest part is a path.
	maxMessage = 64 << 10
)

// Request asks for the checkpoint of a container that is about to be created.
type Request struct {
	Version int `json:"version"`
	// Pod is the UID of the container's pod, and Container its name in the pod.
	Pod       string `json:"pod"`
	Container string `json:"container"`
	// ID is the container's ID in the runtime.
	ID string `json:"id"`
}

// Answer is the agent's answer.
type Answer struct {
	// Refused says why there is no checkpoint for the container; empty if there is one. The container must not start.
	Refused string `json:"refused,omitempty"`
	// Images is the folder with the images of CRIU.
	Images string `json:"images,omitempty"`
	// Changes is a tar with the files that the container had changed; empty if there is none.
	Changes string `json:"changes,omitempty"`
	// Volumes are the volumes to fill before the container is restored.
	Volumes []Volume `json:"volumes,omitempty"`
	// EarlierLog is the output of the container so far, and Log the file of its output on this node. The first goes
	// into the second. Both are empty if there is none.
	EarlierLog string `json:"earlierLog,omitempty"`
	Log        string `json:"log,omitempty"`
}

// Volume is a folder of a container that it shares with no other pod.
type Volume struct {
	// Destination is its path in the container, and Files a tar with what it contained.
	Destination string `json:"destination"`
	Files       string `json:"files"`
}

// write writes a message.
func write(w io.Writer, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(text) >= maxMessage {
		return fmt.Errorf("the message has %d bytes, more than the maximum of %d", len(text), maxMessage-1)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// read reads a message. It reads no further than the end of the line, and at most maxMessage bytes. An unknown field is
// an error, because what it asks for would not be done.
func read(r io.Reader, message any) error {
	var line []byte
	for buffer := make([]byte, 4096); ; {
		n, err := r.Read(buffer)
		line = append(line, buffer[:n]...)
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end]
			break
		}
		if len(line) >= maxMessage {
			return fmt.Errorf("the message is longer than %d bytes", maxMessage)
		}
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(message); err != nil {
		return fmt.Errorf("read the message: %w", err)
	}
	return nil
}
