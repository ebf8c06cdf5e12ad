// Package ledger is the persistent state of a node's agent: one small file for each migration and
// role. It is written and synced before anything is made, so that an agent that was killed knows
// what it made, even if the Migration no longer exists.
package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
)

// Role is the role of an agent in a migration.
type Role string

// The roles.
const (
	SourceRole Role = "source"
	TargetRole Role = "target"
)

// ID identifies an entry.
type ID struct {
	// Migration is the UID of the Migration.
	Migration string
	// Node and Role are the node and its role. An agent that simulates many nodes may have both
	// roles in one migration.
	Node string
	Role Role
}

// Entry is the state of one role in one migration.
type Entry struct {
	ID
	// Namespace and Name are those of the Migration.
	Namespace, Name string
	// Since is when the entry was created.
	Since time.Time
	// Backend is the back-end that takes the state.
	Backend v1alpha1.MigrationBackend
	// Container is the container that moves, for the source.
	Container checkpoint.Container
	// NewPod is the name of the pod that gets its state, for the source.
	NewPod string `json:",omitempty"`
	// Image is the image that is staged, for the target.
	Image checkpoint.Image
	// Key and Certificate are in PEM. They are valid for this migration alone, and removed with
	// it.
	Key, Certificate string

	// MemoryBytes and Requirements are those of the source's container.
	MemoryBytes  int64
	Requirements string
	// Stage is how far the state is moved, and Fate what is decided about the container.
	Stage terms.Stage `json:",omitempty"`
	Fate  terms.Fate  `json:",omitempty"`
	// ThawAfter is until when the container may be frozen without being Sent; zero for no limit.
	ThawAfter time.Time `json:",omitzero"`
	// Reached is the target whose agent answered before the container was frozen, and ReachTries
	// the number of failed tries.
	Reached    string `json:",omitempty"`
	ReachTries int32  `json:",omitempty"`
	// PresentTo is the target to which memory was sent before the freeze, or was about to be.
	PresentTo string `json:",omitempty"`
	// FrozenAt and ThawedAt are when it was frozen and thawed.
	FrozenAt, ThawedAt time.Time
	// Dump and Ship are their durations, and ShipTries the number of tries.
	Dump, Ship time.Duration
	// DumpBytes and ShipBytes are their sizes; ShipBytes is compressed.
	DumpBytes, ShipBytes int64
	ShipTries            int32

	// Staged describes the image of a target at stage Staged.
	Staged *checkpoint.Staged `json:",omitempty"`
	// Sum is the checksum of the staged archive.
	Sum string `json:",omitempty"`
	// GivenTo is the ID of the container that continues from the checkpoint. It is noted before
	// the container can run, and no other container gets the checkpoint.
	GivenTo string `json:",omitempty"`
}

// Ledger keeps entries in a folder. Its methods are safe for concurrent use, but callers must not
// change the same entry concurrently.
type Ledger struct {
	dir string

	mu      sync.Mutex
	entries map[ID]Entry
}

// Open reads the entries of a folder, which it creates if necessary.
func Open(dir string) (*Ledger, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the ledger: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("restrict access to the ledger: %w", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	l := &Ledger{dir: dir, entries: map[ID]Entry{}}
	for _, file := range files {
		name := filepath.Join(dir, file.Name())
		switch {
		case strings.HasSuffix(file.Name(), ".tmp"):
			// An interrupted write; the old file still exists.
			if err := os.Remove(name); err != nil {
				return nil, fmt.Errorf("read the ledger: %w", err)
			}
		case strings.HasSuffix(file.Name(), ".json"):
			entry, err := read(name)
			if err != nil {
				return nil, err
			}
			l.entries[entry.ID] = entry
		}
	}
	return l, nil
}

func read(file string) (Entry, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Entry{}, fmt.Errorf("read the ledger: %w", err)
	}
	entry, err := parse(text)
	if err != nil {
		// The file was synced before it got this name, so no crash causes this. A guess might let
		// a container run twice.
		return Entry{}, fmt.Errorf("read %s of the ledger: %w: check the container that it names, then remove the file", filepath.Base(file), err)
	}
	return entry, nil
}

// parse parses and checks one entry.
func parse(text []byte) (Entry, error) {
	var entry Entry
	if err := json.Unmarshal(text, &entry); err != nil {
		return Entry{}, err
	}
	return entry, entry.check()
}

// plain matches what may be part of a file name.
var plain = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9._]{0,252}$`)

func (id ID) check() error {
	if !plain.MatchString(id.Migration) || !plain.MatchString(id.Node) || id.Role != SourceRole && id.Role != TargetRole {
		return fmt.Errorf("an entry cannot be named %q, %q, %q", id.Migration, id.Node, id.Role)
	}
	return nil
}

func (l *Ledger) file(id ID) string {
	return filepath.Join(l.dir, id.Migration+"_"+id.Node+"_"+string(id.Role)+".json")
}

// Get returns an entry.
func (l *Ledger) Get(id ID) (Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry, ok := l.entries[id]
	return entry, ok
}

// All returns all entries, in no order.
func (l *Ledger) All() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Entry, 0, len(l.entries))
	for _, entry := range l.entries {
		all = append(all, entry)
	}
	return all
}

// Put writes an entry. Once it returns, the entry survives a crash of the machine.
func (l *Ledger) Put(entry Entry) error {
	if err := entry.check(); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	text, err := json.Marshal(entry)
	if err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	if err := replace(l.file(entry.ID), text); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[entry.ID] = entry
	return nil
}

// Remove removes an entry. A missing entry is no error.
func (l *Ledger) Remove(id ID) error {
	if err := os.Remove(l.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove an entry from the ledger: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, id)
	return nil
}

// replace writes a file. After a crash the file has either the old or the new content.
func replace(file string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
