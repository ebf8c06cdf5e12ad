package openstack

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

// The keys of our tags. The format of a tag is KEY=VALUE.
const (
	tagCluster = "supercargo-cluster"
	tagFleet   = "supercargo-fleet"
	tagIntent  = "supercargo-intent"
	tagFlavor  = "supercargo-flavor"
	tagOrdinal = "supercargo-ordinal"
)

// maxTag is the maximum length of a tag in Nova, in characters.
const maxTag = 60

// tag returns a valid tag. A value that is too long or has a character that Nova refuses is replaced by the first 32
// digits of its SHA-256, so that no two values have the same tag.
func tag(key, value string) string {
	plain := func(c rune) bool { return c > ' ' && c < 0x7f && c != ',' && c != '/' }
	if t := key + "=" + value; len(t) <= maxTag && strings.IndexFunc(value, func(c rune) bool { return !plain(c) }) < 0 {
		return t
	}
	sum := sha256.Sum256([]byte(value))
	return key + "=" + hex.EncodeToString(sum[:16])
}

func hasTag(s *servers.Server, t string) bool { return s.Tags != nil && slices.Contains(*s.Tags, t) }

// tagValue returns the value of the tag with a key, or "".
func tagValue(s *servers.Server, key string) string {
	if s.Tags != nil {
		for _, t := range *s.Tags {
			if value, ok := strings.CutPrefix(t, key+"="); ok {
				return value
			}
		}
	}
	return ""
}
