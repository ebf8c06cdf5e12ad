// Package pricelist contains the list prices of cloud providers: on-demand prices by instance type and region, and the
// allocatable resources of each type. README.md describes their sources and dates. It does not read user-defined
// prices.
package pricelist

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"supercargo.dev/supercargo/internal/input/catalogue"
)

//go:embed aws azure gcp
var files embed.FS

// Lists returns the names of all lists, ordered.
func Lists() []string { return names(".", "") }

// Regions returns the regions of a list, ordered; none if there is no such list.
func Regions(list string) []string { return names(list, ".csv") }

// names returns the names in a folder, without their ending.
func names(folder, ending string) []string {
	entries, err := files.ReadDir(folder)
	if err != nil {
		return nil // there is no such folder
	}
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = strings.TrimSuffix(e.Name(), ending)
	}
	slices.Sort(all)
	return all
}

var read = struct {
	sync.Mutex
	lists map[string][]catalogue.Flavor
}{lists: map[string][]catalogue.Flavor{}}

// Read returns the instance types of a list in a region, ordered by name. The caller must not change them. The error
// about an unknown list or region names the known ones.
//
// Cost: O(n) at the first call for n types, O(1) later.
func Read(list, region string) ([]catalogue.Flavor, error) {
	if !slices.Contains(Lists(), list) {
		return nil, fmt.Errorf("price list %q is unknown, must be one of %s", list, strings.Join(Lists(), ", "))
	}
	if !slices.Contains(Regions(list), region) {
		return nil, fmt.Errorf("region %q of price list %s is unknown, must be one of %s: provide your own prices as a catalogue", region, list, strings.Join(Regions(list), ", "))
	}
	read.Lock()
	defer read.Unlock()
	file := path.Join(list, region+".csv")
	if found, ok := read.lists[file]; ok {
		return found, nil
	}
	text, err := files.Open(file)
	if err != nil {
		return nil, fmt.Errorf("open the price list: %w", err)
	}
	defer text.Close() //nolint:errcheck // it is in memory
	found, err := catalogue.ReadFlavors(file, text)
	if err != nil {
		return nil, fmt.Errorf("read the price list: %w", err)
	}
	read.lists[file] = found
	return found, nil
}
