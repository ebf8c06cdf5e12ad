package halfempty

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

const (
	podsPerNode = 20 // mean
	namespaces  = 50
	hour        = 3600 // seconds
	// milliPerNode and bytesPerNode are what half of the smaller nodes hold.
	milliPerNode = 4000
	bytesPerNode = 15 << 30
)

var zones = []string{"us-east-1a", "us-east-1b", "us-east-1c"}

// models are the flavors of the existing nodes. None is the cheapest of its size. The large
// one has twice as many pods.
var models = []model{{"m5.2xlarge", 1}, {"m6i.2xlarge", 1}, {"m7i.2xlarge", 1}, {"m6i.4xlarge", 2}}

type model struct {
	flavor string
	size   int // in multiples of the smaller ones
}

// Generate makes a cluster with that many nodes, and that many flavors that can be bought: those of the price list of AWS
// in us-east-1 with CPUs of the architecture amd64, without burstable and accelerated ones and bare metal, evenly chosen.
// The same arguments make the same cluster.
//
// A node has 20 pods on average, or 40 if it is a large one, between half and one and a half times as many. They are
// drawn from services with 50 pods on average, whose sizes differ by a factor of up to four. Nodes are three to
// four hours old, so that their billing periods end at different times.
func Generate(nodes, flavors int, seed uint64) (*Cluster, error) {
	c := &Cluster{}
	if err := c.choose(flavors); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(seed, 0))
	c.addServices(max(podsPerNode, nodes*podsPerNode/50), random)
	for i := range nodes {
		c.addNode(i, random)
	}
	return c, nil
}

// choose chooses the flavors, with those of the nodes among them.
func (c *Cluster) choose(n int) error {
	listed, err := pricelist.Read("aws", "us-east-1")
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(slices.Clone(listed), func(f catalogue.Flavor) bool {
		return f.Arch != "amd64" || f.Kind != "" || strings.Contains(f.Name, "metal")
	})
	slices.SortFunc(all, func(a, b catalogue.Flavor) int { return cmp.Compare(a.Name, b.Name) })
	if n < len(models) || n > len(all) {
		return fmt.Errorf("%d flavors: must be at least %d, and at most %d, which the price list has", n, len(models), len(all))
	}
	own := func(f catalogue.Flavor) bool {
		return slices.ContainsFunc(models, func(m model) bool { return m.flavor == f.Name })
	}
	others := slices.DeleteFunc(slices.Clone(all), own)
	chosen := slices.DeleteFunc(all, func(f catalogue.Flavor) bool { return !own(f) })
	for i := range n - len(models) {
		chosen = append(chosen, others[i*len(others)/(n-len(models))])
	}
	slices.SortFunc(chosen, func(a, b catalogue.Flavor) int { return cmp.Compare(a.Name, b.Name) })
	for i, f := range chosen {
		c.Flavors = append(c.Flavors, Flavor{
			Name: f.Name, Zone: zones[i%len(zones)], MilliCPU: f.Size.MilliCPU, MemoryBytes: f.Size.MemoryBytes, MicroDollarsPerHour: f.MicroDollarsPerHour,
		})
	}
	return nil
}

// addServices adds services of random sizes.
func (c *Cluster) addServices(n int, random *rand.Rand) {
	for i := range n {
		size, skew := 0.4+1.2*random.Float64(), 0.8+0.4*random.Float64()
		c.Services = append(c.Services, Service{
			Name: fmt.Sprintf("app-%d", i), Namespace: fmt.Sprintf("team-%d", i%namespaces),
			MilliCPU: int64(milliPerNode / podsPerNode * size * skew), MemoryBytes: int64(float64(bytesPerNode/podsPerNode>>20)*size/skew) << 20,
		})
	}
}

// addNode adds a node and its pods.
func (c *Cluster) addNode(i int, random *rand.Rand) {
	m := models[i%len(models)]
	name := fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", i>>16, i>>8&255, i&255)
	c.Nodes = append(c.Nodes, Node{Name: name, Flavor: m.flavor, AgeSeconds: 3*hour + i*37%hour})
	pods := m.size * (podsPerNode/2 + random.IntN(podsPerNode+1))
	at := slices.IndexFunc(c.Flavors, func(f Flavor) bool { return f.Name == m.flavor })
	milli, bytes := c.Flavors[at].MilliCPU, c.Flavors[at].MemoryBytes
	for range pods {
		s := random.IntN(len(c.Services))
		milli, bytes = milli-c.Services[s].MilliCPU, bytes-c.Services[s].MemoryBytes
		if milli < 0 || bytes < 0 {
			return
		}
		c.Pods = append(c.Pods, Pod{Name: fmt.Sprintf("%s-%06d", c.Services[s].Name, len(c.Pods)), Service: s, Node: name})
	}
}
