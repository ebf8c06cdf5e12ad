package view

import (
	"encoding/json"
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
	items := make([]Item, 0, 1+len(p.Nodes)+len(p.Pending)+len(p.Fleets)+len(p.Decisions)+len(p.Migrations)+len(p.Policies)+len(p.Pools))
	var fault error
	add := func(section, key string, value any) {
		text, err := json.Marshal(value)
		if err != nil && fault == nil {
			fault = fmt.Errorf("encode %s %s: %w", section, key, err)
		}
		items = append(items, Item{section, key, text})
	}
	add("summary", "", p.Summary)
	for i := range p.Nodes {
		add("nodes", p.Nodes[i].Name, &p.Nodes[i])
	}
	for i := range p.Pending {
		add("pending", p.Pending[i].Reason, &p.Pending[i])
	}
	for i := range p.Fleets {
		add("fleets", p.Fleets[i].Name, &p.Fleets[i])
	}
	for i := range p.Decisions {
		add("decisions", p.Decisions[i].Key, &p.Decisions[i])
	}
	for i := range p.Migrations {
		add("migrations", p.Migrations[i].Name, &p.Migrations[i])
	}
	for i := range p.Policies {
		add("policies", p.Policies[i].Name, &p.Policies[i])
	}
	for i := range p.Pools {
		add("pools", p.Pools[i].Name, &p.Pools[i])
	}
	return items, fault
}
