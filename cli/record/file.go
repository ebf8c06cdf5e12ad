package record

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"supercargo.dev/supercargo/internal/input/trace"
)

// File is a recording that rows are appended to. Each row is written at once and whole, so that a
// crash of the process loses none.
type File struct {
	f    *os.File
	path string
	// Before is the content of the file when it was opened; nil if it is new.
	Before *trace.Recording
	// Hashed reports whether names are hashed, with a salt in a separate file.
	Hashed bool
	salt   []byte
}

// saltOf returns the path of the file with the salt of a recording.
func saltOf(path string) string { return path + ".salt" }

// saltBytes is the length of a salt, which makes trying all of them infeasible.
const saltBytes = 32

// OpenFile opens a recording to continue it, or creates one. It removes an incomplete row that a
// crash left at the end. Names are hashed in a new file if hash is set, and in an existing one if
// they already are. Until Close, no other process can append to it.
func OpenFile(path string, hash bool) (_ *File, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	file := &File{f: f, path: path, Hashed: hash}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := lock(f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := file.read(); err != nil {
		return nil, err
	}
	if file.Hashed {
		if file.salt, err = readSalt(saltOf(path), file.Before == nil); err != nil {
			return nil, err
		}
	}
	return file, nil
}

// read reads the existing content, and prepares the file for appending.
func (f *File) read() error {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	// A file that was cut off within its header is empty.
	if bytes.HasPrefix([]byte(trace.RecordingHeader), text) {
		if err := f.f.Truncate(0); err != nil {
			return err
		}
		_, err := f.f.WriteString(trace.RecordingHeader)
		return err
	}
	if !trace.IsRecording(text) {
		return fmt.Errorf("%s is not a recording: use a new file, or one that supercargo record has written", f.path)
	}
	whole := int64(bytes.LastIndexByte(text, '\n') + 1)
	if whole > int64(len(trace.RecordingHeader)) {
		rec, err := trace.ReadRecording(f.path, bytes.NewReader(text))
		if err != nil {
			return err
		}
		f.Before = rec
		is := slices.ContainsFunc(rec.Rows, func(r trace.Row) bool { return r.Event == trace.EventBegin && r.Name == trace.NamesHashed })
		if f.Hashed && !is {
			return fmt.Errorf("%s has names that are not hashed: omit --hash-names, or use another file", f.path)
		}
		f.Hashed = is
	}
	return f.f.Truncate(whole)
}

// readSalt reads a salt, or creates it for a new recording.
func readSalt(path string, isNew bool) ([]byte, error) {
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		salt, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil || len(salt) != saltBytes {
			return nil, fmt.Errorf("%s is not the salt of a recording: remove it and record to another file", path)
		}
		return salt, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case !isNew:
		return nil, fmt.Errorf("%s, the salt of the hashed names, is missing: the recording cannot continue; record to another file", path)
	}
	salt := make([]byte, saltBytes)
	if _, err := rand.Read(salt); err != nil {
		return nil, fmt.Errorf("create a salt: %w", err)
	}
	return salt, os.WriteFile(path, []byte(hex.EncodeToString(salt)+"\n"), 0o600)
}

// Name returns the name to write for a name of the cluster: the same, or a hash that reveals
// nothing without the salt. Equal names stay equal.
func (f *File) Name(name string) string {
	if !f.Hashed || name == "" {
		return name
	}
	h := hmac.New(sha256.New, f.salt)
	h.Write([]byte(name))
	const bytesShown = 8
	return "x" + hex.EncodeToString(h.Sum(nil)[:bytesShown])
}

// Append writes rows, each in one write.
func (f *File) Append(rows ...trace.Row) error {
	for i := range rows {
		if _, err := f.f.Write(rows[i].Append(nil)); err != nil {
			return fmt.Errorf("append to %s: %w", f.path, err)
		}
	}
	return nil
}

// Sync flushes appended rows to the disk.
func (f *File) Sync() error { return f.f.Sync() }

// Close flushes and closes the file.
func (f *File) Close() error { return errors.Join(f.f.Sync(), f.f.Close()) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
