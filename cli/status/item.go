package status

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Item is a part of a page that changes independently.
type Item struct {
	// Section and Key identify an item.
	Section, Key string
	// JSON is its content.
	JSON []byte
}

// Items returns the items of a page. Each contains the fields that determine its position in a list.
func (p *Page) Items() ([]Item, error) {
	text, err := json.Marshal(p.Summary)
	items := []Item{{Section: "summary", JSON: text}}
	return items, errors.Join(err,
		add(&items, "nodes", p.Nodes, func(n *Node) string { return n.Name }),
		add(&items, "pending", p.Pending, func(g *Pending) string { return g.Reason }),
		add(&items, "fleets", p.Fleets, func(f *Fleet) string { return f.Name }),
		add(&items, "decisions", p.Decisions, func(d *Decision) string { return d.Key }),
		add(&items, "migrations", p.Migrations, func(m *Migration) string { return m.Name }),
		add(&items, "policies", p.Policies, func(o *Policy) string { return o.Name }),
		add(&items, "pools", p.Pools, func(o *Pool) string { return o.Name }))
}

// add adds an item for each value of a list.
func add[T any](items *[]Item, section string, list []T, key func(*T) string) error {
	for i := range list {
		text, err := json.Marshal(&list[i])
		if err != nil {
			return fmt.Errorf("encode %s %s: %w", section, key(&list[i]), err)
		}
		*items = append(*items, Item{section, key(&list[i]), text})
	}
	return nil
}
