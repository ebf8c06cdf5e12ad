// Package fault draws what goes wrong in a run, and for how long, from a seed. It is pure: the
// same seed gives the same faults.
package fault

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is what goes wrong.
type Kind string

// What goes wrong with a program.
const (
	// Kill ends the leader of a program with SIGKILL. It is started again, as a kubelet does.
	Kill Kind = "Kill"
	// Pause stops the leader with SIGSTOP for longer than its Lease lasts, and then lets it go
	// on.
	Pause Kind = "Pause"
	// DeleteLease deletes the Lease of a program.
	DeleteLease Kind = "DeleteLease"
	// GiveLease gives the Lease to somebody who does not exist.
	GiveLease Kind = "GiveLease"
)

// What goes wrong between a program and the API server. All of it hits all replicas of the
// program, except for BlackHole, which hits the leader.
const (
	// Drop cuts all connections, and refuses new ones.
	Drop Kind = "Drop"
	// Delay has each request wait.
	Delay Kind = "Delay"
	// TooMany answers most requests with 429 and a Retry-After.
	TooMany Kind = "TooMany"
	// ResetWatches ends all watches, again and again.
	ResetWatches Kind = "ResetWatches"
	// LoseAnswers carries writes out, and cuts the connection in the place of some answers.
	LoseAnswers Kind = "LoseAnswers"
	// BlackHole swallows all that is sent, for longer than a Lease lasts, and ends nothing.
	BlackHole Kind = "BlackHole"
)

// What goes wrong with a machine.
const (
	// RestartEtcd stops etcd and starts it again.
	RestartEtcd Kind = "RestartEtcd"
	// FullEtcd has etcd refuse writes, because its data have reached the quota.
	FullEtcd Kind = "FullEtcd"
	// FullDisk leaves the agents of nodes no room for their state.
	FullDisk Kind = "FullDisk"
)

// Fault is one thing that goes wrong.
type Fault struct {
	Kind Kind `json:"kind"`
	// Program is which it hits; empty if it hits no single one.
	Program string `json:"program,omitempty"`
	// Lasts is for how long. A program that is killed, and a Lease, are away for as long as
	// it takes.
	Lasts time.Duration `json:"lastsNanoseconds"`
}

func (f Fault) String() string {
	text := string(f.Kind)
	if f.Program != "" {
		text += " " + f.Program
	}
	if f.Lasts > 0 {
		text += fmt.Sprintf(" for %v", f.Lasts)
	}
	return text
}

// Lease is for how long the Lease of a leader is valid: the default of Kubernetes' leader
// election.
const Lease = 15 * time.Second

// shape is whom a kind of fault hits, and for how long.
type shape struct {
	kind           Kind
	program        bool // one of those with a leader, or the agent if agents says so
	agents         bool
	least, longest time.Duration
	needsDisk      bool
}

var shapes = []shape{
	{kind: Kill, program: true},
	{kind: Pause, program: true, least: Lease + 3*time.Second, longest: Lease + 10*time.Second},
	{kind: DeleteLease, program: true},
	{kind: GiveLease, program: true},
	{kind: Drop, program: true, agents: true, least: 3 * time.Second, longest: 20 * time.Second},
	{kind: Delay, program: true, agents: true, least: 10 * time.Second, longest: 25 * time.Second},
	{kind: TooMany, program: true, agents: true, least: 5 * time.Second, longest: 20 * time.Second},
	{kind: ResetWatches, program: true, agents: true, least: 5 * time.Second, longest: 15 * time.Second},
	{kind: LoseAnswers, program: true, agents: true, least: 10 * time.Second, longest: 20 * time.Second},
	{kind: BlackHole, program: true, agents: true, least: Lease + 3*time.Second, longest: Lease + 15*time.Second},
	{kind: RestartEtcd, least: 2 * time.Second, longest: 10 * time.Second},
	{kind: FullEtcd, least: 3 * time.Second, longest: 15 * time.Second},
	{kind: FullDisk, needsDisk: true, least: 10 * time.Second, longest: 25 * time.Second},
}

// Cluster is what there is to hit.
type Cluster struct {
	// Leaders are programs of which one replica acts, Agents those of which all do.
	Leaders, Agents []string
	// Disk says that the agents have a disk of their own that can be filled.
	Disk bool
}

// Source draws faults. Of the kinds that the cluster has, each comes before any comes again.
type Source struct {
	random  *rand.Rand
	cluster Cluster
	bag     []shape
	// turn is whose turn it is of each kind, so that a kind hits all programs in time.
	turn map[Kind]int
}

// New returns a source.
func New(seed uint64, c Cluster) *Source {
	return &Source{random: rand.New(rand.NewPCG(seed, 1)), cluster: c, turn: map[Kind]int{}}
}

// Next draws the next fault.
func (s *Source) Next() Fault {
	if len(s.bag) == 0 {
		s.bag = slices.DeleteFunc(slices.Clone(shapes), func(k shape) bool { return k.needsDisk && !s.cluster.Disk })
		s.random.Shuffle(len(s.bag), func(i, j int) { s.bag[i], s.bag[j] = s.bag[j], s.bag[i] })
	}
	k := s.bag[0]
	s.bag = s.bag[1:]
	f := Fault{Kind: k.kind}
	if k.longest > 0 {
		f.Lasts = k.least + time.Duration(s.random.Int64N(int64(k.longest-k.least))).Truncate(100*time.Millisecond)
	}
	if k.program {
		f.Program = s.program(k)
	}
	return f
}

// program draws which program a fault of a kind hits: the first time any, then the next.
func (s *Source) program(k shape) string {
	all := slices.Clone(s.cluster.Leaders)
	if k.agents {
		all = append(all, s.cluster.Agents...)
	}
	turn, begun := s.turn[k.kind]
	if !begun {
		turn = s.random.IntN(len(all))
	}
	s.turn[k.kind] = turn + 1
	return all[turn%len(all)]
}
