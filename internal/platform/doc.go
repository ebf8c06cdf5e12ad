// Package platform is empty. The folders below it are what programs need to run and to query
// other servers. They decide nothing: operator has the flags and the manager of controllers, self and
// version identify a program, poll repeats a check until it holds, promql and powerquery query
// servers of metrics, and tarifffile follows a file.
package platform
