package profile

import (
	"errors"
	"fmt"
	"slices"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Set holds what is known about machine types, by name of the type. It does not change.
type Set map[string]*Machine

// Book keeps the profiles of a cluster as they come, change and go. The zero value is
// empty and ready to use. It is not safe for concurrent use.
type Book struct {
	read map[string]*Machine // by name of the MachineProfile; nil for one that is not sound
}

// Put notes an object that is new or has changed. The error says what is wrong with it, or
// that another one is used for its machine type; it is nil for a profile in which nothing
// has been learned yet.
func (b *Book) Put(o *v1alpha1.MachineProfile) error {
	if b.read == nil {
		b.read = map[string]*Machine{}
	}
	m, err := FromObject(o)
	if errors.Is(err, ErrNothingLearned) {
		err = nil
	}
	b.read[o.Name] = m
	if err != nil || m == nil {
		return err
	}
	for name, other := range b.read {
		if other != nil && other.Type == m.Type && name < o.Name {
			return fmt.Errorf("spec.machineType: %q has a profile already, %s, which is used: want one for each machine type", m.Type, name)
		}
	}
	return nil
}

// Drop forgets an object that has gone.
func (b *Book) Drop(name string) { delete(b.read, name) }

// Set returns what is known now: of several profiles for one type the one whose name comes
// first.
func (b *Book) Set() Set {
	names := make([]string, 0, len(b.read))
	for name := range b.read {
		names = append(names, name)
	}
	slices.Sort(names)
	set := make(Set, len(names))
	for _, name := range names {
		m := b.read[name]
		if m == nil {
			continue
		}
		if _, taken := set[m.Type]; !taken {
			set[m.Type] = m
		}
	}
	return set
}
