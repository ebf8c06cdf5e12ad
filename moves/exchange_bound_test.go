package moves

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// cheapestMachines returns the least that machines for the pods cost with the work that is repeated on them, of all
// partitions of the pods and all flavors; false if there are no such machines.
func cheapestMachines(t *trial, flavors []cluster.Flavor) (least int64, possible bool) {
	least = math.MaxInt64
	for _, groups := range partitions(t.left) {
		sum := int64(0)
		for _, group := range groups {
			price := cheapestFor(t, group, flavors)
			if price < 0 {
				sum = -1
				break
			}
			sum += price
		}
		if sum >= 0 {
			least, possible = min(least, sum), true
		}
	}
	return least, possible
}

// cheapestFor returns what the cheapest machine for all the pods costs, -1 if there is none.
func cheapestFor(t *trial, pods []cluster.Pod, flavors []cluster.Flavor) (least int64) {
	least = -1
	for i := range flavors {
		m := machine{flavor: &flavors[i], class: class.Any, pods: pods}
		if !m.holds() {
			continue
		}
		bill, repeated := t.priceWith(&cluster.Node{MicroDollarsPerHour: m.flavor.MicroDollarsPerHour, Capacity: m.flavor.Size}, t.leave(), pods)
		if least < 0 || bill+repeated < least {
			least = bill + repeated
		}
	}
	return least
}

// drawDear draws a cluster of machines that cost about as much as those that could be bought for their pods.
func drawDear(t *rapid.T) *cluster.State {
	s := state()
	amount, dollars := rapid.Int64Range(1, 4), rapid.Int64Range(1, 12)
	for i := range rapid.IntRange(1, 3).Draw(t, "flavors") {
		s.Flavors = append(s.Flavors, flavor(fmt.Sprintf("f%d", i), 2+amount.Draw(t, "cpu"), 2+amount.Draw(t, "memory"), dollars.Draw(t, "price")))
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		n := node(fmt.Sprintf("n%d", i))
		n.MicroDollarsPerHour = dollars.Draw(t, "price of the node") * 2_000_000
		for j := range rapid.IntRange(1, 2).Draw(t, "pods") {
			p := service(fmt.Sprintf("p%d-%d", i, j), amount.Draw(t, "cpu of the pod"), amount.Draw(t, "memory of the pod"))
			if rapid.IntRange(0, 3).Draw(t, "job") > 0 {
				p.Class, p.Runtime = class.Batch, time.Duration(rapid.IntRange(1, 200).Draw(t, "runtime"))*time.Minute
				p.Ran = time.Duration(rapid.IntRange(0, 60).Draw(t, "ran")) * time.Minute
			}
			n.Pods = append(n.Pods, p)
		}
		s.Nodes = append(s.Nodes, n)
	}
	s.MaxNodes = 100
	s.BillingPeriod = rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "billing")
	s.Release, s.Lag = time.Duration(rapid.IntRange(0, 20).Draw(t, "release"))*time.Second, time.Duration(rapid.IntRange(0, 120).Draw(t, "lag"))*time.Second
	return s
}

// TestNoExchangeIsRefusedThatWouldPay refuses all machines of a cluster before others are searched for, and searches for
// them.
func TestNoExchangeIsRefusedThatWouldPay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, c := drawDear(t), drawExchangeConfig(t)
		c.MoveServices, c.Residence = true, 0
		x := newExchanger(s, c, nil)
		trial := x.trySet(x.candidates, nil)
		trial.fill(trial.movingPods(nil), partial)
		trial.wait = s.Lag
		x.sale = newOnSale(x.flavors())
		least, possible := cheapestMachines(trial, x.sale.flavors)
		if !possible {
			return
		}
		if bound := trial.leastShares(x.sale); bound > least {
			t.Fatalf("machines for %v cost $%.6f, and are said to cost $%.6f at least", names(trial.left), float64(least)/1e6, float64(bound)/1e6)
		}
		a := trial.account(nil)
		if a.saves -= least; a.pays(x.c.Margin) && !x.mayPay(trial) {
			t.Fatalf("refused, and machines for %v cost $%.6f: gain %d of %d", names(trial.left), float64(least)/1e6, a.gain(), a.paid)
		}
	})
}
