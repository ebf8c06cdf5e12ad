package integration

import (
	"os"
	"testing"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"supercargo.dev/supercargo/plugins"
)

// beScheduler makes this test program run as a kube-scheduler, so that a test can kill it as in a real crash.
const beScheduler = "SUPERCARGO_TEST_BE_SCHEDULER"

func TestMain(m *testing.M) {
	if os.Getenv(beScheduler) != "" {
		os.Exit(cli.Run(app.NewSchedulerCommand(plugins.Options()...)))
	}
	os.Exit(m.Run())
}
