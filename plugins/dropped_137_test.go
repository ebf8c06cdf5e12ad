//go:build kubernetes1.37 && !kubernetes1.38

package plugins_test

var dropped = []string{"CapacityScheduling", "Coscheduling", "PreemptionToleration", "QOSSort", "TopologicalSort"}
