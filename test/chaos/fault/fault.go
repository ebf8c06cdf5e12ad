// Package fault draws the faults of a run and their durations from a seed. It is pure: the same
// seed gives the same faults.
package fault

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is a kind of fault.
type Kind string

// Faults of a program.
const (
	// Kill ends the leader of a program with SIGKILL. It is restarted as a kubelet would do.
	Kill Kind = "Kill"
	// Pause stops the leader with SIGSTOP for longer than its Lease is valid, then continues it.
	Pause Kind = "Pause"
	// DeleteLease deletes the Lease of a program.
	DeleteLease Kind = "DeleteLease"
	// GiveLease sets the holder of the Lease to a replica that does not exist.
	GiveLease Kind = "GiveLease"
)

// Faults between a program and the API server. They affect all replicas of the program, except for
// BlackHole, which affects only the leader, or the first agent.
const (
	// Drop closes all connections and refuses new ones.
	Drop Kind = "Drop"
	// Delay delays each request.
	Delay Kind = "Delay"
	// TooMany answers most requests with 429 and a Retry-After.
	TooMany Kind = "TooMany"
	// ResetWatches ends all watches repeatedly.
	ResetWatches Kind = "ResetWatches"
	// LoseAnswers carries out all writes, and closes the connection instead of answering some of them.
	LoseAnswers Kind = "LoseAnswers"
	// BlackHole discards all traffic for longer than a Lease is valid, and keeps connections open.
	BlackHole Kind = "BlackHole"
)

// Faults of a machine.
const (
	// RestartEtcd stops etcd and starts it again.
	RestartEtcd Kind = "RestartEtcd"
	// FullEtcd fills etcd up to its quota, so that it refuses writes.
	FullEtcd Kind = "FullEtcd"
	// FullDisk fills the disk on which the node agents keep their state.
	FullDisk Kind = "FullDisk"
)

// Faults of a real cluster, beside most of the above.
const (
	// KillAgent kills the node agent of a node, and PauseAgent stops it with SIGSTOP for a while.
	KillAgent  Kind = "KillAgent"
	PauseAgent Kind = "PauseAgent"
	// KillKubelet and KillContainerd kill these programs of a node, and start them again after a while.
	KillKubelet    Kind = "KillKubelet"
	KillContainerd Kind = "KillContainerd"
	// KillAPIServer kills the process of the API server, which its kubelet restarts.
	KillAPIServer Kind = "KillAPIServer"
	// Disconnect takes a node from the network.
	Disconnect Kind = "Disconnect"
)

// Playground lists the kinds for programs that reach the API server of a playground through proxies. FullDisk
// also requires that the agents have their own disk.
var Playground = []Kind{Kill, Pause, DeleteLease, GiveLease, Drop, Delay, TooMany, ResetWatches, LoseAnswers, BlackHole, RestartEtcd, FullEtcd, FullDisk}

// Nodes lists the kinds for a cluster with real nodes, on which the programs run as pods.
var Nodes = []Kind{Kill, Pause, DeleteLease, GiveLease, TooMany, RestartEtcd, FullDisk, KillAgent, PauseAgent, KillKubelet, KillContainerd, KillAPIServer, Disconnect}

// Fault is one fault.
type Fault struct {
	Kind Kind `json:"kind"`
	// Program is the affected program; empty if the fault is not specific to one.
	Program string `json:"program,omitempty"`
	// Lasts is the duration. It is 0 for kinds whose duration depends on the recovery, such as Kill.
	Lasts time.Duration `json:"lastsNanoseconds"`
}

// String returns the kind, the program and the duration.
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

// Lease is how long the Lease of a leader is valid: the default of Kubernetes' leader election.
const Lease = 15 * time.Second

// shape is what a kind of fault affects, and the range of its duration.
type shape struct {
	kind           Kind
	program        bool // affects one program with a leader or, if agents is set, the agent
	agents         bool
	least, longest time.Duration
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
	{kind: FullDisk, least: 10 * time.Second, longest: 25 * time.Second},
	{kind: KillAgent},
	{kind: PauseAgent, least: 5 * time.Second, longest: 25 * time.Second},
	{kind: KillKubelet, least: 2 * time.Second, longest: 20 * time.Second},
	{kind: KillContainerd, least: 2 * time.Second, longest: 10 * time.Second},
	{kind: KillAPIServer},
	{kind: Disconnect, least: 5 * time.Second, longest: 25 * time.Second},
}

// Cluster is what faults can affect.
type Cluster struct {
	// Leaders are the programs of which only the leader acts, Agents those of which all replicas act.
	Leaders, Agents []string
	// Kinds are the kinds of faults that can be injected.
	Kinds []Kind
}

// Source draws faults. Every applicable kind is drawn once before any kind is drawn again.
type Source struct {
	random  *rand.Rand
	cluster Cluster
	bag     []shape
	// turn is the index of the next program of each kind, so that a kind eventually affects all programs.
	turn map[Kind]int
}

// New returns a source of faults for a cluster.
func New(seed uint64, c Cluster) *Source {
	return &Source{random: rand.New(rand.NewPCG(seed, 1)), cluster: c, turn: map[Kind]int{}}
}

// Next draws the next fault.
func (s *Source) Next() Fault {
	if len(s.bag) == 0 {
		s.bag = slices.DeleteFunc(slices.Clone(shapes), func(k shape) bool { return !slices.Contains(s.cluster.Kinds, k.kind) })
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

// program returns the program that a fault of a kind affects: at first a random one, then the next in order.
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
