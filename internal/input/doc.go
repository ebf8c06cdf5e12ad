// Package input is empty. The folders below it read files that users give: series has
// measurements, trace has recorded workloads and catalogues of machines. Who reads
// objects of Kubernetes finds that in package world.
package input
