// Package input is empty. The folders below it read files that users give: table has rows and
// columns of any kind, and on it stand series, which has measurements, and catalogue, which has
// machines. Who reads objects of Kubernetes finds that in package world.
package input
