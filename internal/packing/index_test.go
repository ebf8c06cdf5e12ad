package packing

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// naive implements Index by sorting all nodes each time.
type naive struct {
	nodes map[string]IndexedNode
	now   time.Time
}

func (n naive) fitting(size Size, runtime time.Duration, cycle time.Duration) []string {
	var fit []Node
	for _, in := range n.nodes {
		node := Node{Name: in.Name, Free: in.Free}
		if !in.Finish.IsZero() {
			node.Remaining = in.Finish.Sub(n.now)
		}
		if size.MemoryBytes <= in.Free.MemoryBytes && size.MilliCPU <= in.Free.MilliCPU {
			fit = append(fit, node)
		}
	}
	slices.SortFunc(fit, CompareTimeBin(runtime, cycle))
	names := make([]string, 0, len(fit))
	for _, f := range fit {
		names = append(names, f.Name)
	}
	return names
}

func (n naive) tied(name string, cycle time.Duration) []string {
	room := func(in IndexedNode) (Size, int64) {
		if in.Finish.IsZero() {
			return in.Free, 0
		}
		return in.Free, BinOf(in.Finish.Sub(n.now), cycle)
	}
	free, bin := room(n.nodes[name])
	var tied []string
	for _, in := range n.nodes {
		if f, b := room(in); f == free && b == bin {
			tied = append(tied, in.Name)
		}
	}
	slices.Sort(tied)
	return tied
}

func namesFitting(x *Index, size Size, runtime time.Duration) []string {
	names := []string{}
	for n := range x.Fitting(size, runtime) {
		names = append(names, n.Name)
	}
	return names
}

// TestIndexAnswersLikeAFullScan adds, removes and changes nodes, lets time pass (sometimes backwards), and compares the
// whole order with a new sort.
func TestIndexAnswersLikeAFullScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cycle := rapid.SampledFrom([]time.Duration{0, time.Minute, 5 * time.Minute}).Draw(t, "cycle")
		x, twin := NewIndex(cycle, epoch), naive{nodes: map[string]IndexedNode{}, now: epoch}
		size := rapid.Custom(func(t *rapid.T) Size {
			return Size{MemoryBytes: rapid.Int64Range(-1, 6).Draw(t, "memory"), MilliCPU: rapid.Int64Range(-1, 6).Draw(t, "cpu")}
		})
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				n := IndexedNode{Name: fmt.Sprintf("n%03d", rapid.IntRange(0, 30).Draw(t, "name")), Free: size.Draw(t, "free")}
				switch rapid.IntRange(0, 4).Draw(t, "busy") {
				case 0, 1:
					n.Finish = twin.now.Add(time.Duration(rapid.IntRange(-60, 1800).Draw(t, "remaining")) * time.Second)
				case 2: // with a service
					n.Finish = Unending
				}
				x.Put(n)
				twin.nodes[n.Name] = n
			},
			"remove": func(t *rapid.T) {
				name := fmt.Sprintf("n%03d", rapid.IntRange(0, 30).Draw(t, "name"))
				x.Remove(name)
				delete(twin.nodes, name)
			},
			"advance": func(t *rapid.T) {
				twin.now = twin.now.Add(time.Duration(rapid.IntRange(-100, 600).Draw(t, "by")) * time.Second)
				x.Advance(twin.now)
			},
			"": func(t *rapid.T) {
				want, runtime := size.Draw(t, "want"), time.Duration(rapid.IntRange(0, 1800).Draw(t, "runtime"))*time.Second
				if diff := gocmp.Diff(twin.fitting(want, runtime, cycle), namesFitting(x, want, runtime)); diff != "" {
					t.Fatalf("nodes for %+v, runtime %v (-full scan +index):\n%s", want, runtime, diff)
				}
				for name := range twin.nodes {
					if diff := gocmp.Diff(twin.tied(name, cycle), slices.Collect(x.Tied(name))); diff != "" {
						t.Fatalf("nodes that fit as well as %s (-full scan +index):\n%s", name, diff)
					}
				}
				if x.Len() != len(twin.nodes) {
					t.Fatalf("the index holds %d nodes, want %d", x.Len(), len(twin.nodes))
				}
				if x.next.Len() > len(twin.nodes) {
					t.Fatalf("%d crossings are kept for %d nodes", x.next.Len(), len(twin.nodes))
				}
			},
		})
	})
}

// TestIndexAnswersLikeAFullScanAtSize does the same with enough nodes to split, merge and drop blocks.
func TestIndexAnswersLikeAFullScanAtSize(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	x, twin := NewIndex(0, epoch), naive{nodes: map[string]IndexedNode{}, now: epoch}
	check := func() {
		t.Helper()
		for _, b := range x.shelves[0].blocks {
			most := int64(-1)
			for _, e := range b.entries {
				most = max(most, e.free.MilliCPU)
			}
			if b.maxCPU != most {
				t.Errorf("a block claims %d milli-CPU at most, its nodes have %d: searches pass over too few blocks", b.maxCPU, most)
			}
		}
		for range 20 {
			size := Size{MemoryBytes: r.Int64N(1100), MilliCPU: r.Int64N(110)}
			if diff := gocmp.Diff(twin.fitting(size, 0, 0), namesFitting(x, size, 0)); diff != "" {
				t.Fatalf("nodes for %+v (-full scan +index):\n%s", size, diff)
			}
		}
		if got := slices.Collect(x.Tied("never-there")); len(got) > 0 {
			t.Errorf("nodes that fit as well as an unknown one: %v", got)
		}
	}
	for i := range 3000 {
		n := IndexedNode{Name: fmt.Sprint(i), Free: Size{MemoryBytes: r.Int64N(1000), MilliCPU: r.Int64N(100)}}
		x.Put(n)
		twin.nodes[n.Name] = n
	}
	check()
	for _, i := range r.Perm(3000)[:2950] {
		x.Remove(fmt.Sprint(i))
		delete(twin.nodes, fmt.Sprint(i))
		if i%300 == 0 {
			check()
		}
	}
	check()
	if blocks := len(x.shelves[0].blocks); blocks > 10 {
		t.Errorf("50 nodes lie in %d blocks: blocks that have shrunk are not merged", blocks)
	}
}

// TestANodeWithAServiceStaysInTheGreatestBin moves the time by three centuries, forwards and back.
func TestANodeWithAServiceStaysInTheGreatestBin(t *testing.T) {
	x := NewIndex(cycle, epoch)
	x.Put(IndexedNode{Name: "tight", Free: Size{MemoryBytes: 1, MilliCPU: 1}})
	x.Put(IndexedNode{Name: "with-service", Free: Size{MemoryBytes: 9, MilliCPU: 9}, Finish: Unending})
	for _, years := range []int{0, 1, 300, 299, -300, 0} {
		x.Advance(epoch.AddDate(years, 0, 0))
		if diff := gocmp.Diff([]string{"with-service", "tight"}, namesFitting(x, Size{}, time.Hour)); diff != "" {
			t.Errorf("nodes for a job of an hour, %d years from now (-want +got):\n%s", years, diff)
		}
		if x.next.Len() > 0 {
			t.Errorf("%d years from now, a node is to leave its bin at %v", years, x.next.First().leaves)
		}
	}
	x.Put(IndexedNode{Name: "with-service", Free: Size{MemoryBytes: 9, MilliCPU: 9}}) // the service has gone
	if diff := gocmp.Diff([]string{"tight", "with-service"}, namesFitting(x, Size{}, time.Hour)); diff != "" {
		t.Errorf("nodes once the service has gone (-want +got):\n%s", diff)
	}
}

func TestRemovingAnUnknownNodeIsHarmless(t *testing.T) {
	x := NewIndex(cycle, epoch)
	x.Remove("nobody")
	x.Put(IndexedNode{Name: "a", Free: Size{MemoryBytes: 1, MilliCPU: 1}})
	x.Remove("nobody")
	if diff := gocmp.Diff([]string{"a"}, namesFitting(x, Size{}, 0)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	var s shelf
	if s.remove(entry{name: "x"}) {
		t.Error("an empty shelf claims to have held a node")
	}
}

// TestScoresRankLikeTheOrder checks what a strict profile relies on: the first node of the order and those that differ
// from it only by name have BestScore, and the others follow in order.
func TestScoresRankLikeTheOrder(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		items, nodes := randomCase(r, 1, 8)
		runtime := time.Duration(0)
		if len(items) > 0 {
			runtime = items[0].Runtime
		}
		for name, c := range map[string]struct {
			scores  []int64
			compare func(a, b Node) int
		}{
			"fit":      {FitScores(nodes), CompareFit},
			"time bin": {TimeBinScores(nodes, runtime, cycle), CompareTimeBin(runtime, cycle)},
		} {
			order := indices(len(nodes))
			slices.SortFunc(order, func(a, b int) int { return c.compare(nodes[a], nodes[b]) })
			for rank, i := range order {
				unnamed := nodes[i]
				unnamed.Name = nodes[order[0]].Name
				if (c.scores[i] == BestScore) != (c.compare(unnamed, nodes[order[0]]) == 0) {
					t.Fatalf("seed %d, %s: node %d of the order scores %d", seed, name, rank, c.scores[i])
				}
				if c.scores[i] < 0 || c.scores[i] > BestScore {
					t.Fatalf("seed %d, %s: score %d is out of range", seed, name, c.scores[i])
				}
				if rank > 0 && c.scores[i] > c.scores[order[rank-1]] {
					t.Fatalf("seed %d, %s: node %d scores more than the one before it", seed, name, rank)
				}
			}
		}
	}
}

func TestFitScoresAreLinearInFreeMemory(t *testing.T) {
	nodes := []Node{{Name: "a", Free: Size{MemoryBytes: 0}}, {Name: "b", Free: Size{MemoryBytes: 0, MilliCPU: 1}},
		{Name: "c", Free: Size{MemoryBytes: 50}}, {Name: "d", Free: Size{MemoryBytes: 100}}}
	if diff := gocmp.Diff([]int64{100, 99, 49, 0}, FitScores(nodes)); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
	if got := FitScores(nil); len(got) != 0 {
		t.Errorf("scores of no nodes: %v", got)
	}
}

// TestNodesThatFitEquallyWellScoreTheSame leaves the choice between them to the other score plugins of a profile.
func TestNodesThatFitEquallyWellScoreTheSame(t *testing.T) {
	at := func(name string, memory, cpu int64, remaining time.Duration) Node {
		return Node{Name: name, Free: Size{MemoryBytes: memory, MilliCPU: cpu}, Remaining: remaining}
	}
	for _, tc := range []struct {
		name           string
		nodes          []Node
		fit, inTimeBin []int64
	}{
		{"equal nodes", []Node{at("c", 5, 5, 0), at("a", 5, 5, 0), at("b", 5, 5, 0)}, []int64{100, 100, 100}, []int64{100, 100, 100}},
		{"one with more processors free", []Node{at("a", 5, 6, 0), at("b", 5, 5, 0), at("c", 5, 5, 0)}, []int64{99, 100, 100}, []int64{99, 100, 100}},
		{"one with more memory free", []Node{at("a", 9, 5, 0), at("b", 5, 5, 0), at("c", 5, 5, 0)}, []int64{0, 100, 100}, []int64{0, 100, 100}},
		{"equal room in other time bins", []Node{at("a", 5, 5, 0), at("b", 5, 5, 6*time.Minute), at("c", 5, 5, 9*time.Minute)}, []int64{100, 100, 100}, []int64{49, 100, 100}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := gocmp.Diff(tc.fit, FitScores(tc.nodes)); diff != "" {
				t.Errorf("scores by fit (-want +got):\n%s", diff)
			}
			if diff := gocmp.Diff(tc.inTimeBin, TimeBinScores(tc.nodes, 7*time.Minute, cycle)); diff != "" {
				t.Errorf("scores by time bin (-want +got):\n%s", diff)
			}
		})
	}
}

// TestScoresBelowTheBestOrderNodesOnlyRoughly shows why scored nodes must not be kept for the next pod: the scores do
// not give the second node of the order.
func TestScoresBelowTheBestOrderNodesOnlyRoughly(t *testing.T) {
	nodes := []Node{{Name: "first", Free: Size{MemoryBytes: 0}}, {Name: "third", Free: Size{MemoryBytes: 501}},
		{Name: "second", Free: Size{MemoryBytes: 500}}, {Name: "last", Free: Size{MemoryBytes: 1000}}}
	if diff := gocmp.Diff([]int64{100, 49, 49, 0}, FitScores(nodes)); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

func TestTimeBinScoresGiveEachBinABand(t *testing.T) {
	nodes := []Node{
		{Name: "own-tight", Free: Size{MemoryBytes: 1}, Remaining: 6 * time.Minute},
		{Name: "own-loose", Free: Size{MemoryBytes: 9}, Remaining: 6 * time.Minute},
		{Name: "up", Free: Size{MemoryBytes: 1}, Remaining: 30 * time.Minute},
		{Name: "down", Free: Size{MemoryBytes: 1}},
	}
	if diff := gocmp.Diff([]int64{100, 66, 66, 33}, TimeBinScores(nodes, 7*time.Minute, cycle)); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
	nodes = append(nodes, Node{Name: "with-service", Free: Size{MemoryBytes: 1}, Remaining: Endless})
	if diff := gocmp.Diff([]int64{100, 74, 74, 24, 49}, TimeBinScores(nodes, 7*time.Minute, cycle)); diff != "" {
		t.Errorf("scores beside a node with a service (-want +got):\n%s", diff)
	}
}

// TestTiedNodesAreFoundAcrossBlocks uses more equal nodes than a block holds.
func TestTiedNodesAreFoundAcrossBlocks(t *testing.T) {
	x, twin := NewIndex(0, epoch), naive{nodes: map[string]IndexedNode{}, now: epoch}
	for i := range 4 * blockSize {
		n := IndexedNode{Name: fmt.Sprintf("n%04d", i*7%(4*blockSize)), Free: Size{MemoryBytes: 5, MilliCPU: int64(i % 4 / 3)}}
		x.Put(n)
		twin.nodes[n.Name] = n
	}
	for _, name := range []string{"n0000", "n0001", "n0300"} {
		if diff := gocmp.Diff(twin.tied(name, 0), slices.Collect(x.Tied(name))); diff != "" {
			t.Errorf("nodes that fit as well as %s (-full scan +index):\n%s", name, diff)
		}
	}
}

func BenchmarkIndex(b *testing.B) {
	for _, n := range []int{500, 5000} {
		r := rand.New(rand.NewPCG(1, 1))
		x := NewIndex(cycle, epoch)
		nodes := make([]IndexedNode, n)
		for i := range nodes {
			nodes[i] = IndexedNode{Name: fmt.Sprintf("node-%05d", i), Free: Size{MemoryBytes: r.Int64N(64 << 30), MilliCPU: r.Int64N(16000)},
				Finish: epoch.Add(time.Duration(r.Int64N(int64(time.Hour))))}
			x.Put(nodes[i])
		}
		slices.SortFunc(nodes, func(a, b IndexedNode) int { return cmp.Compare(a.Name, b.Name) })
		b.Run(fmt.Sprintf("place/nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var best IndexedNode
				for best = range x.Fitting(Size{MemoryBytes: 1 << 20, MilliCPU: 1}, 20*time.Minute) {
					break
				}
				best.Free.MemoryBytes -= 1 << 20
				if best.Free.MemoryBytes < 1<<24 {
					best.Free.MemoryBytes = 64 << 30
				}
				x.Put(best)
			}
		})
	}
}
