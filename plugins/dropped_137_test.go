//go:build kubernetes1.37

package plugins_test

var dropped = []string{"CapacityScheduling", "Coscheduling", "PreemptionToleration", "QOSSort", "TopologicalSort"}
