// Package platform is empty. The folders below it are what programs need to run and to ask
// others, and decide nothing: operator has the flags and the manager of controllers, self and
// version say who a program is, poll asks again and again, promql and powerquery ask
// servers of metrics, tarifffile follows a file.
package platform
