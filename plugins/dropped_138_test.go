//go:build kubernetes1.38

package plugins_test

var dropped = []string{"CapacityScheduling", "Coscheduling", "PodState", "PreemptionToleration", "QOSSort", "TopologicalSort"}
