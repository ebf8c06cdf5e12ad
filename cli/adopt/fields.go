package adopt

import (
	"encoding/json"
	"fmt"
	"slices"
)

// poolFields are the paths of the fields in the spec of a NodePool that are converted or listed. [] stands for each item
// of a list and {} for each key of a map. A field that is not here belongs to a version of Karpenter that is not known,
// and is listed as such.
var poolFields = []string{
	"disruption.budgets[].duration",
	"disruption.budgets[].nodes",
	"disruption.budgets[].reasons[]",
	"disruption.budgets[].schedule",
	"disruption.consolidateAfter",
	"disruption.consolidationPolicy",
	"limits{}",
	"replicas",
	"template.metadata.annotations{}",
	"template.metadata.labels{}",
	"template.spec.expireAfter",
	"template.spec.nodeClassRef.group",
	"template.spec.nodeClassRef.kind",
	"template.spec.nodeClassRef.name",
	"template.spec.requirements[].key",
	"template.spec.requirements[].minValues",
	"template.spec.requirements[].operator",
	"template.spec.requirements[].values[]",
	"template.spec.startupTaints[].effect",
	"template.spec.startupTaints[].key",
	"template.spec.startupTaints[].timeAdded",
	"template.spec.startupTaints[].value",
	"template.spec.taints[].effect",
	"template.spec.taints[].key",
	"template.spec.taints[].timeAdded",
	"template.spec.taints[].value",
	"template.spec.terminationGracePeriod",
	"weight",
}

// unknown lists the fields of a spec that are not known.
func (c *conversion) unknown(spec map[string]any) {
	for _, key := range sorted(spec) {
		c.unknownIn(spec[key], key, "spec."+key)
	}
}

// unknownIn lists the fields of a value that are not known. path is the path with [] and {}, and at the path of this
// value.
func (c *conversion) unknownIn(value any, path, at string) {
	switch known := slices.Contains(poolFields, path); v := value.(type) {
	case map[string]any:
		if slices.Contains(poolFields, path+"{}") {
			return
		}
		for _, key := range sorted(v) {
			c.unknownIn(v[key], path+"."+key, at+"."+key)
		}
	case []any:
		for i, item := range v {
			c.unknownIn(item, path+"[]", fmt.Sprintf("%s[%d]", at, i))
		}
	default:
		if known || value == nil {
			return
		}
		text, err := json.Marshal(value)
		if err != nil {
			text = []byte(fmt.Sprint(value))
		}
		c.note(at, string(text), "This field is not known to this version of Supercargo, and is left out.", "Find out from Karpenter's documentation whether it matters for your pods.")
	}
}
