// Package ledger is the memory of a node's agent: one small file for each migration and
// role, written and synced before anything is made, so that an agent that was killed
// knows what it had made, also when the Migration has vanished meanwhile.
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
)

// Role is the part that an agent plays in a migration.
type Role string

// The roles.
const (
	SourceRole Role = "source"
	TargetRole Role = "target"
)

// ID names an entry.
type ID struct {
	// Migration is the UID of the Migration.
	Migration string
	// Node and Role are whose part it is. An agent that plays many nodes may have both
	// roles of one migration.
	Node string
	Role Role
}

// Entry is what is remembered.
type Entry struct {
	ID
	// Namespace and Name are those of the Migration.
	Namespace, Name string
	// Since is when the entry was made.
	Since time.Time
	// Backend is how the state is taken.
	Backend v1alpha1.MigrationBackend
	// Container is what moves, for the source.
	Container checkpoint.Container
	// Image is what is staged, for the target.
	Image checkpoint.Image
	// Key and Certificate are in PEM. They are good for this migration alone, and go
	// with it.
	Key, Certificate string

	// MemoryBytes and Requirements are the source's.
	MemoryBytes  int64
	Requirements string
	// FreezeNoted says that the container may be frozen by this agent.
	FreezeNoted bool `json:",omitempty"`
	// KillNoted says that the container is to die and must never go on.
	KillNoted bool `json:",omitempty"`
	// Dumped says that its state is in the work folder, complete.
	Dumped bool `json:",omitempty"`
	// Sent says that the target may have all of it, whether it has confirmed that or not:
	// from then on the restored copy may run. It is written before the last bytes go.
	Sent bool `json:",omitempty"`
	// Shipped says that the target has confirmed it.
	Shipped bool `json:",omitempty"`
	// ThawAfter is until when the container may be frozen without being Sent; zero is
	// without a limit, as in entries of releases that did not note what they sent.
	ThawAfter time.Time `json:",omitzero"`
	// Expired says that ThawAfter has passed and the container continues: it is not frozen
	// for this migration again.
	Expired bool `json:",omitempty"`
	// Reached is the target whose agent has answered before the container was frozen, and
	// ReachTries how often one has not.
	Reached    string `json:",omitempty"`
	ReachTries int32  `json:",omitempty"`
	// Removed says that nothing but this entry is left.
	Removed bool `json:",omitempty"`
	// FrozenAt and ThawedAt are when it was frozen and went on.
	FrozenAt, ThawedAt time.Time
	// Dump, Ship are how long they took, and ShipTries how often it was tried.
	Dump, Ship time.Duration
	// DumpBytes and ShipBytes are how much it was; the latter compressed.
	DumpBytes, ShipBytes int64
	ShipTries            int32

	// Prepared says that the target takes the archive.
	Prepared bool `json:",omitempty"`
	// Staged is set once the image is there.
	Staged *checkpoint.Staged `json:",omitempty"`
	// Sum is the checksum of the archive that was staged.
	Sum string `json:",omitempty"`
}

// Ledger keeps entries in a folder. Its methods may be called from any goroutine; who
// changes an entry sees to it that nobody else changes the same one.
type Ledger struct {
	dir string

	mu      sync.Mutex
	entries map[ID]Entry
}

// Open reads the entries of a folder, and makes the folder if it is not there.
func Open(dir string) (*Ledger, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the ledger: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep others out of the ledger: %w", err)
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
			// A write that was cut short: what it replaces is still there.
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
		// It was synced before it got this name, so no crash does this. To guess might let
		// a container run twice.
		return Entry{}, fmt.Errorf("read %s of the ledger: %w: look at the container that it names, then remove the file", filepath.Base(file), err)
	}
	return entry, nil
}

// parse reads one entry.
func parse(text []byte) (Entry, error) {
	var entry Entry
	if err := json.Unmarshal(text, &entry); err != nil {
		return Entry{}, err
	}
	return entry, entry.check()
}

// plain is what may be part of a file's name.
var plain = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9._]{0,252}$`)

func (id ID) check() error {
	if !plain.MatchString(id.Migration) || !plain.MatchString(id.Node) || id.Role != SourceRole && id.Role != TargetRole {
		return fmt.Errorf("no entry can be named %q, %q, %q", id.Migration, id.Node, id.Role)
	}
	return nil
}

// Valid says whether there can be an entry of that name.
func (id ID) Valid() bool { return id.check() == nil }

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

// Put writes an entry. Once it returns, the entry outlives a crash of the machine.
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

// Remove forgets an entry. One that is not there is no error.
func (l *Ledger) Remove(id ID) error {
	if err := os.Remove(l.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("strike an entry from the ledger: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, id)
	return nil
}

// replace writes a file so that after a crash there is the old text or the new one.
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
