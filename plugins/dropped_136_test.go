//go:build kubernetes1.36 && !kubernetes1.37

package plugins_test

var dropped = []string{"CapacityScheduling", "PreemptionToleration"}
