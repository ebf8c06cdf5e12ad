// Package halfempty makes clusters whose nodes are about half empty, and measures what an autoscaler makes of them.
//
// Both contestants of `make bench-disruption` read the same cluster (cluster.go, generate.go), carry out their decisions
// in the same world (world.go) on the same kind of clock (clock.go), and write the same figures (figures.go). They are
// separate programs, because one of them is a module of its own.
package halfempty

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Cluster is a cluster, and what can be bought for it.
type Cluster struct {
	Flavors  []Flavor  `json:"flavors"`
	Services []Service `json:"services"`
	Nodes    []Node    `json:"nodes"`
	Pods     []Pod     `json:"pods"`
}

// Flavor is a kind of machine that can be bought, in one zone. All that it has is for pods: nothing is reserved.
type Flavor struct {
	Name                string `json:"name"`
	Zone                string `json:"zone"`
	MilliCPU            int64  `json:"milliCPU"`
	MemoryBytes         int64  `json:"memoryBytes"`
	MicroDollarsPerHour int64  `json:"microDollarsPerHour"`
}

// MaxPods is the number of pods that a node holds.
const MaxPods = 110

// Service is a ReplicaSet, whose pods are alike and may all be evicted.
type Service struct {
	Name        string `json:"name"`
	Namespace   string `json:"namespace"`
	MilliCPU    int64  `json:"milliCPU"`
	MemoryBytes int64  `json:"memoryBytes"`
}

// Node is a node that has existed for some hours.
type Node struct {
	Name       string `json:"name"`
	Flavor     string `json:"flavor"`
	AgeSeconds int    `json:"ageSeconds"`
}

// Made returns when the node was made.
func (n *Node) Made(now time.Time) time.Time {
	return now.Add(-time.Duration(n.AgeSeconds) * time.Second)
}

// Pod is a pod that has run for hours. Service is the index of its service.
type Pod struct {
	Name    string `json:"name"`
	Service int    `json:"service"`
	Node    string `json:"node"`
}

// Write writes the cluster as JSON.
func (c *Cluster) Write(out io.Writer) error { return json.NewEncoder(out).Encode(c) }

// Read reads a cluster that Write has written.
func Read(in io.Reader) (*Cluster, error) {
	c := &Cluster{}
	if err := json.NewDecoder(in).Decode(c); err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	for _, p := range c.Pods {
		if p.Service < 0 || p.Service >= len(c.Services) {
			return nil, fmt.Errorf("read the cluster: pod %s is of service %d of %d", p.Name, p.Service, len(c.Services))
		}
	}
	return c, nil
}
