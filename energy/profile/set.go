package profile

import (
	"errors"
	"fmt"
	"slices"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Set holds the known machine types by name. It is immutable.
type Set map[string]*Machine

// Book tracks the MachineProfiles of a cluster. The zero value is empty and ready to use. It is not safe for concurrent
// use.
type Book struct {
	read map[string]*Machine // by name of the MachineProfile; nil if invalid or without models
}

// Put adds a new or changed object. The error says what is wrong with it, or that another one is used for its machine
// type. It is nil for a profile in which nothing has been learned yet.
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
			return fmt.Errorf("spec.machineType: %q already has profile %s, which is used: each machine type must have only one profile", m.Type, name)
		}
	}
	return nil
}

// Drop removes an object that was deleted.
func (b *Book) Drop(name string) { delete(b.read, name) }

// Set returns the current profiles. Of several profiles for one type, it uses the one with the first name.
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
