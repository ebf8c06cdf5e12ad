// Command descheduler is the stock Kubernetes descheduler, for comparison. It is a separate module, so that
// Supercargo does not depend on it.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"sigs.k8s.io/descheduler/cmd/descheduler/app"
)

func main() { os.Exit(cli.Run(app.NewDeschedulerCommand(os.Stdout))) }
