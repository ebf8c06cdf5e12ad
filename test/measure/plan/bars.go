package plan

import (
	"fmt"
	"slices"
)

// Bar is a requirement on supercargo over all selected workloads, and whether it is met.
type Bar struct {
	Demand string `json:"demand"`
	// Worst is the worst value.
	Worst float64 `json:"worst"`
	// At is the workload with the worst value.
	At  string `json:"at"`
	Met bool   `json:"met"`
}

// judge checks supercargo against its requirements. The gaps are those of pods without constraints, because
// the bound does not include the cost of constraints.
func judge(workloads []*Workload) []Bar {
	ours := func(w *Workload) *Figures { return w.Planners["supercargo"] }
	gap := func(w *Workload) float64 { return ours(w).Gap }
	millis := func(w *Workload) float64 { return ours(w).PlanningMillis }
	ran := func(w *Workload) bool { return ours(w).LeftOut == "" }
	plain := func(w *Workload) bool {
		return ran(w) && !w.Family && w.Name != wholeCatalogue && w.Name != diverseDemands
	}
	tenThousand := func(w *Workload) bool { return ran(w) && w.Name == generalFamilies && w.Pods == 10_000 }
	bars := []Bar{
		bar(workloads, "plans all pods, and never wrong", 0, every[*Workload], func(w *Workload) float64 {
			if !ran(w) || ours(w).Fault != "" || ours(w).Unplaceable > 0 {
				return 1
			}
			return 0
		}),
		bar(workloads, "gap of 1 % at most from 2,000 pods", 0.01, func(w *Workload) bool { return plain(w) && w.Pods >= 2_000 }, gap),
		bar(workloads, "gap of 1 % at most from 2,000 pods of any family", 0.01, func(w *Workload) bool { return ran(w) && w.Family }, gap),
		bar(workloads, "gap of 3 % at most at 500 pods", 0.03, func(w *Workload) bool { return plain(w) && w.Pods == 500 }, gap),
		bar(workloads, "gap of 5 % at most with the whole catalogue", 0.05, func(w *Workload) bool { return ran(w) && w.Name == wholeCatalogue }, gap),
		bar(workloads, "never more expensive than Karpenter", 1, func(w *Workload) bool { return w.KarpenterToSupercargo > 0 }, func(w *Workload) float64 { return 1 / w.KarpenterToSupercargo }),
		bar(workloads, "never more expensive than greedy", 1, func(w *Workload) bool { return w.GreedyToSupercargo > 0 }, func(w *Workload) float64 { return 1 / w.GreedyToSupercargo }),
		bar(workloads, "10,000 pods, 723 flavors: planned within 1,000 ms", 1000, tenThousand, millis),
		bar(workloads, "10,000 pods, 723 flavors: within 1,024 MiB", 1024, tenThousand, func(w *Workload) float64 { return ours(w).PeakMemoryMiB }),
		bar(workloads, "50,000 pods: planned within 5,000 ms", 5000, func(w *Workload) bool { return ran(w) && w.Pods == 50_000 }, millis),
	}
	return slices.DeleteFunc(bars, func(b Bar) bool { return b.At == "" })
}

// bar finds the worst value over the workloads of a requirement.
func bar(workloads []*Workload, demand string, most float64, about func(*Workload) bool, figure func(*Workload) float64) Bar {
	b := Bar{Demand: demand}
	for _, w := range workloads {
		if !about(w) {
			continue
		}
		if f := figure(w); b.At == "" || f > b.Worst {
			b.Worst, b.At = f, fmt.Sprintf("%s, %d pods, seed %d", w.Name, w.Pods, w.Seed)
		}
	}
	b.Met = b.Worst <= most
	return b
}
