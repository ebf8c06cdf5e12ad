package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/explain"
	"supercargo.dev/supercargo/cli/migrate"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/movable"
)

// migrateFlags are the flags of `supercargo migrate`.
type migrateFlags struct {
	cluster    *command.ClusterFlags
	to, output string

	deadline time.Duration
	dryRun   bool
	wait     bool
	noWait   bool
}

func newMigrateCommand() *cobra.Command {
	flags := migrateFlags{cluster: command.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:   "migrate POD",
		Short: "Migrate a running pod, with its state, to another node",
		Long: `Create a Migration for a pod and wait until it has finished.

The pod must allow it with the annotation supercargo.dev/migration: checkpoint. With --dry-run, the
command creates nothing: it prints whether the pod can be migrated, what prevents it and what would
help, and what would change for the pod.

Ctrl-C stops waiting. The migration continues.`,
		Example: `  # Check whether a pod can be migrated
  supercargo migrate work-0-x7k2p --dry-run

  # Migrate it, to a node that the scheduler chooses or to one that you name
  supercargo migrate work-0-x7k2p
  supercargo migrate work-0-x7k2p --to node-b --deadline 2m

  # Print for how long no copy of it ran
  supercargo migrate work-0-x7k2p -o json | jq .frozenSeconds`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runMigrate(cmd.Context(), args[0], flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if len(args) == 0 {
				names = flags.cluster.Complete(cmd.Context(), running)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := cmd.Flags()
	flags.cluster.AddTo(cmd, true)
	f.StringVar(&flags.to, "to", "", "`node` to move it to (default: the scheduler chooses)")
	f.DurationVar(&flags.deadline, "deadline", 5*time.Minute, "roll back if the new pod does not run after this time")
	f.BoolVar(&flags.dryRun, "dry-run", false, "only print whether the pod can be migrated, and what would change for it")
	f.BoolVar(&flags.wait, "wait", true, "wait until the migration has finished")
	f.BoolVar(&flags.noWait, "no-wait", false, "return as soon as the Migration is created")
	command.AddOutput(cmd, &flags.output, command.TableJSONOrYAML, "")
	cmd.MarkFlagsMutuallyExclusive("wait", "no-wait")
	flags.cluster.CompleteFlag(cmd, "to", command.Nodes)
	return cmd
}

// running are the pods that can be migrated.
var running = command.Objects{GroupVersionResource: command.Pods.GroupVersionResource, Namespaced: true, Fields: "status.phase=Running"}

// check returns an error if a flag is invalid.
func (f *migrateFlags) check() error {
	if err := command.TableJSONOrYAML.Check("output", f.output); err != nil {
		return err
	}
	if f.deadline < 10*time.Second || f.deadline > 24*time.Hour {
		return fmt.Errorf("--deadline %v: must be from 10s to 24h", f.deadline)
	}
	return nil
}

func runMigrate(ctx context.Context, name string, flags migrateFlags, stdout, stderr io.Writer) error {
	if err := flags.check(); err != nil {
		return command.BadInput(err)
	}
	c, namespace, err := flags.cluster.Namespaced()
	if err != nil {
		return err
	}
	pod := &corev1.Pod{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		return fmt.Errorf("read pod %s in namespace %s: %w", name, namespace, err)
	}
	m := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: generateName(name)},
		Spec: v1alpha1.MigrationSpec{
			PodName: name, PodUID: string(pod.UID), TargetNode: flags.to,
			Deadline: metav1.Duration{Duration: flags.deadline},
		},
	}
	if flags.dryRun {
		return migrateDryRun(ctx, c, m, pod, flags, stdout)
	}
	if err := c.Create(ctx, m); err != nil {
		if apierrors.IsInvalid(err) {
			return command.BadInput(fmt.Errorf("create a Migration for pod %s: %w", name, err))
		}
		return fmt.Errorf("create a Migration for pod %s: %w", name, err)
	}
	if flags.wait && !flags.noWait {
		f, ok := stderr.(*os.File)
		show := &migrateProgress{w: stderr, terminal: ok && term.IsTerminal(int(f.Fd()))}
		err := migrate.Follow(ctx, c, m, show.show)
		show.end()
		if err != nil {
			return err
		}
	}
	if err := command.PrintAs(stdout, flags.output, explain.NewMigrationSummary(m)); err != nil {
		return err
	}
	if _, failed := status.Ended(m.Status.Phase); failed {
		return fmt.Errorf("pod %s was not moved: %s", name, whyEnded(m))
	}
	return nil
}

// generateName returns the prefix of the name of a Migration. It leaves room for the suffix of the API
// server.
func generateName(pod string) string {
	const longest = 50
	return strings.TrimRight(pod[:min(len(pod), longest)], "-.") + "-"
}

// migrateDryRun prints whether a pod can be moved.
func migrateDryRun(ctx context.Context, c client.Client, m *v1alpha1.Migration, pod *corev1.Pod, flags migrateFlags, stdout io.Writer) error {
	verdict, err := migrate.DryRun(ctx, c, m, pod, time.Now())
	if err != nil {
		return err
	}
	v := explain.NewVerdict(pod, verdict)
	if err := command.PrintAs(stdout, flags.output, v); err != nil {
		return err
	}
	if len(verdict.Refusals) > 0 {
		return fmt.Errorf("pod %s cannot be moved: %s", pod.Name, movable.Reason(verdict.Refusals))
	}
	return nil
}

// whyEnded returns in one line how a migration ended.
func whyEnded(m *v1alpha1.Migration) string {
	for _, c := range m.Status.Conditions {
		if c.Type == v1alpha1.MigrationFinished {
			return c.Message
		}
	}
	return string(m.Status.Phase)
}

// migrateProgress shows the progress of a migration on a terminal.
type migrateProgress struct {
	w        io.Writer
	terminal bool
	last     string
	drawn    bool
}

// show redraws the line if it has changed.
func (p *migrateProgress) show(m *v1alpha1.Migration) {
	line := explain.MigrationLine(m)
	if !p.terminal || line == p.last {
		return
	}
	p.last, p.drawn = line, true
	fmt.Fprintf(p.w, "\r\x1b[K%s", line)
}

// end clears the line.
func (p *migrateProgress) end() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
