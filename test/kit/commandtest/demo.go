package commandtest

// Demo is what scripts read of `supercargo demo -o json`. Only a run on a real control plane prints the whole document, so
// the tests of the command in test/integration hold it, and those of lab/demo with a document of their own. Units are in
// the names.
var Demo = Contract{
	Name: "demo",
	Fields: `
		trace.name                          string
		trace.format                        string
		trace.pods                          count
		trace.batchPods                     count
		trace.spanSeconds                   amount
		trace.ignoredColumns                list
		trace.gpuIgnored                    boolean
		cluster.nodes                       count
		cluster.milliCPU                    count
		cluster.memoryBytes                 count
		cluster.dollarsPerHour              amount
		cluster.flavors[].name              string
		cluster.flavors[].nodes             count
		cluster.flavors[].dollarsPerHour    amount
		scale.arrivals                      amount
		scale.lifetimes                     amount
		profiles[].name                     string
		profiles[].windowSeconds            amount
		profiles[].podsCreated              count
		profiles[].podsBound                count
		profiles[].podsNeverBound           count
		profiles[].podsRefused              count
		profiles[].nodesUsedMean            amount
		profiles[].nodesUsedPeak            count
		profiles[].cpuUtilizationPercent    percent
		profiles[].memoryUtilizationPercent percent
		profiles[].dollarsPerHour           amount
		profiles[].timeToBindMeanSeconds    amount
		profiles[].timeToBindP95Seconds     amount
		wallSeconds                         amount`,
}

// DemoFleet is [Demo] with the part on a NodeFleet, which --fleet=false leaves out.
var DemoFleet = Contract{
	Name: "demo --fleet",
	Fields: Demo.Fields + `
		fleet.windowSeconds                 amount
		fleet.podsBound                     count
		fleet.podsNeverBound                count
		fleet.dollarsPerHour                amount
		fleet.fixedDollarsPerHour           amount
		fleet.machinesPeak                  count
		fleet.machinesMean                  amount
		fleet.machinesEnd                   count
		fleet.timeToBindMeanSeconds         amount
		fleet.acquisitionLagSeconds         amount
		fleet.flavors                       list
		fleet.course                        list
		fleet.lastDecision                  text
		fleet.consolidation.jobs            count
		fleet.consolidation.jobsFailed      count
		fleet.consolidation.migrations      count
		fleet.consolidation.machinesBefore  count
		fleet.consolidation.machinesAfter   count
		fleet.consolidation.decisions       list`,
}
