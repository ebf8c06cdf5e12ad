package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/platform/pause"
)

// pauseFlags are the flags of `supercargo pause` and `supercargo resume`.
type pauseFlags struct {
	cluster           *command.ClusterFlags
	namespace, reason string
}

func newPauseCommand() *cobra.Command {
	flags := pauseFlags{cluster: command.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Pause Supercargo's controllers",
		Long: `Create the ConfigMap supercargo-pause. While it exists, Supercargo's controllers buy, delete, scale,
drain and move nothing. They still decide and report, as in mode Observe. Migrations in progress
finish, so that no pod stays frozen. The scheduler continues to schedule.

If the cluster is already paused, the command replaces the reason.`,
		Example: `  # Pause all controllers
  supercargo pause --reason "incident 4711"

  # Resume
  supercargo resume`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.pause(cmd.Context(), cmd.OutOrStdout())
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&flags.reason, "reason", "", "reason to show in conditions and Events")
	return cmd
}

func newResumeCommand() *cobra.Command {
	flags := pauseFlags{cluster: command.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:     "resume",
		Short:   "Resume Supercargo's controllers after a pause",
		Long:    `Delete the ConfigMap supercargo-pause. The command succeeds if the cluster is not paused.`,
		Example: "  supercargo resume",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.resume(cmd.Context(), cmd.OutOrStdout())
		},
	}
	flags.add(cmd)
	return cmd
}

func (f *pauseFlags) add(cmd *cobra.Command) {
	f.cluster.AddTo(cmd, false)
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", pause.DefaultNamespace, "namespace of Supercargo's programs")
	f.cluster.CompleteNamespace(cmd)
}

// object returns the ConfigMap that pauses the controllers.
func (f *pauseFlags) object() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cmp.Or(f.namespace, pause.DefaultNamespace), Name: pause.Name}}
}

func (f *pauseFlags) pause(ctx context.Context, out io.Writer) error {
	c, err := f.cluster.Client()
	if err != nil {
		return err
	}
	object := f.object()
	if f.reason != "" {
		object.Data = map[string]string{pause.ReasonKey: f.reason}
	}
	err = c.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		there := f.object()
		if err = c.Get(ctx, client.ObjectKeyFromObject(there), there); err == nil {
			there.Data = object.Data
			err = c.Update(ctx, there)
		}
	}
	if lacksNamespace(err) {
		return fmt.Errorf("pause: namespace %s does not exist, so no program of Supercargo runs there: -n selects another namespace", object.Namespace)
	}
	if err != nil {
		return fmt.Errorf("pause: write ConfigMap %s/%s: %w", object.Namespace, object.Name, err)
	}
	_, err = fmt.Fprintf(out, "paused: ConfigMap %s/%s; supercargo resume lets the controllers act again\n", object.Namespace, object.Name)
	return err
}

// lacksNamespace reports whether the API server found no namespace, rather than none of what was asked for.
func lacksNamespace(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces"
}

func (f *pauseFlags) resume(ctx context.Context, out io.Writer) error {
	c, err := f.cluster.Client()
	if err != nil {
		return err
	}
	object := f.object()
	err = c.Delete(ctx, object)
	switch {
	case apierrors.IsNotFound(err):
		_, err = fmt.Fprintf(out, "not paused: there is no ConfigMap %s/%s\n", object.Namespace, object.Name)
	case err != nil:
		err = fmt.Errorf("resume: delete ConfigMap %s/%s: %w", object.Namespace, object.Name, err)
	default:
		_, err = fmt.Fprintln(out, "resumed")
	}
	return err
}
