// Command print prints the version it was linked with.
package main

import (
	"fmt"

	"supercargo.dev/supercargo/internal/platform/version"
)

func main() {
	fmt.Println(version.Version)
}
