package purchase

import (
	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// admission is which pods may run on which machines, regardless of size: by CPU architecture, exceptions and node
// constraints. Pods with the same constraints are a class.
type admission struct {
	classes []int // by pod
	pods    []*Pod
	// sets are, by class, the numbers of the sets of offers that admit it; pricedOn are those that admit it in any
	// domain.
	sets, pricedOn []int32
}

const (
	admitted = '+'
	refused  = '-'
)

func newAdmission(pods []Pod) *admission {
	type key struct {
		arch, static string
		except       *Exceptions
		onlyBought   bool
	}
	a := &admission{classes: make([]int, len(pods))}
	at := map[key]int{}
	for i := range pods {
		k := key{arch: pods[i].Arch, except: pods[i].Except, onlyBought: pods[i].OnlyBought}
		if c := pods[i].Demands; c != nil {
			k.static = c.StaticKey()
		}
		class, ok := at[k]
		if !ok {
			class = len(a.pods)
			at[k] = class
			a.pods = append(a.pods, &pods[i])
		}
		a.classes[i] = class
	}
	return a
}

// column returns, by class, whether a flavor admits it.
func (a *admission) column(f *Flavor) string {
	return a.columnOf(func(p *Pod) bool { return p.admittedBy(f) == "" })
}

// columnOf returns, by class, whether the function admits it.
func (a *admission) columnOf(admits func(*Pod) bool) string {
	column := make([]byte, len(a.pods))
	for i, pod := range a.pods {
		column[i] = refused
		if admits(pod) {
			column[i] = admitted
		}
	}
	return string(column)
}

var bareHost = &constraint.Host{}

// admittedBy returns why no machine of a flavor admits the pod, or "".
func (p *Pod) admittedBy(f *Flavor) string {
	if !suits(p.Arch, f.Arch) {
		return "needs architecture " + p.Arch
	}
	if p.Except != nil && p.Except.Flavors[f.Name] != "" {
		return p.Except.Flavors[f.Name]
	}
	if p.Demands == nil {
		return ""
	}
	host := f.Host
	if host == nil {
		host = bareHost
	}
	return p.Demands.Admits(host)
}
