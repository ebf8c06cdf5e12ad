package audit

import (
	"fmt"
	"regexp"
)

// SystemTaint is the key of a taint by which the input keeps pods on the operating system of their node, where a cluster has
// several. The value is the operating system. No reason of a [Result] names the taint, which no node has.
const SystemTaint = "audit.supercargo.dev/os"

var systemTaint = regexp.MustCompile(`untolerated taint ` + regexp.QuoteMeta(SystemTaint) + `=([a-z0-9]+):NoSchedule`)

// plain returns a reason of the planner with the operating system in place of its taint.
func plain(reason string) string {
	return systemTaint.ReplaceAllStringFunc(reason, func(taint string) string {
		return fmt.Sprintf("operating system %s", systemTaint.FindStringSubmatch(taint)[1])
	})
}
