package containerd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
)

const (
	// labelPinned is the label of an image that the kubelet does not remove when the disk is full, if its value is
	// pinnedValue.
	labelPinned = "io.cri-containerd.pinned"
	pinnedValue = "pinned"
	// labelPinnedFor lists the UIDs of the migrations for which an agent has pinned an image, separated by commas.
	labelPinnedFor = v1alpha1.GroupName + "/pinned-for"
)

// pins returns the labels that an image gets if it is pinned for some migrations only, an empty value being none. An image
// that somebody else has pinned is left as it is.
func pins(labels map[string]string, migrations []string) map[string]string {
	if labels[labelPinned] == pinnedValue && labels[labelPinnedFor] == "" {
		return nil
	}
	to := map[string]string{labelPinned: "", labelPinnedFor: strings.Join(migrations, ",")}
	if len(migrations) > 0 {
		to[labelPinned] = pinnedValue
	}
	return to
}

// pinnedFor returns the migrations for which an image is pinned.
func pinnedFor(labels map[string]string) []string {
	return strings.FieldsFunc(labels[labelPinnedFor], func(r rune) bool { return r == ',' })
}

// pin keeps the image of the container of a checkpoint from being removed until the checkpoint is.
func (c *Client) pin(ctx context.Context, image checkpoint.Image) error {
	return c.repin(ctx, image.Requirements.BaseImageID, func(has []string) []string {
		if slices.Contains(has, image.Migration) {
			return has
		}
		return append(has, image.Migration)
	})
}

func (c *Client) unpin(ctx context.Context, image checkpoint.Image) error {
	return c.repin(ctx, image.Requirements.BaseImageID, func(has []string) []string {
		return slices.DeleteFunc(has, func(m string) bool { return m == image.Migration })
	})
}

// repin changes the list of migrations for which an image is pinned. The CRI plugin has a record of each image under its
// ID, besides those under its names. Without such a record, the image is not pinned: then it may be removed.
func (c *Client) repin(ctx context.Context, id string, change func([]string) []string) error {
	if id == "" {
		return nil
	}
	c.pinning.Lock()
	defer c.pinning.Unlock()
	answer, err := c.images.Get(ctx, &imagesapi.GetImageRequest{Name: id})
	if notFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get image %s: %w", id, err)
	}
	record := answer.GetImage()
	has := pinnedFor(record.GetLabels())
	want := change(slices.Clone(has))
	if slices.Equal(has, want) {
		return nil
	}
	to := pins(record.GetLabels(), want)
	if to == nil {
		return nil
	}
	record.Labels = to // only those in the mask are written
	mask := &fieldmaskpb.FieldMask{Paths: []string{"labels." + labelPinned, "labels." + labelPinnedFor}}
	if _, err := c.images.Update(ctx, &imagesapi.UpdateImageRequest{Image: record, UpdateMask: mask}); err != nil && !notFound(err) {
		return fmt.Errorf("pin image %s: %w", id, err)
	}
	return nil
}

// sweepPins removes unknown migrations from the lists of those for which images are pinned.
func (c *Client) sweepPins(ctx context.Context, known func(migration string) bool) error {
	answer, err := c.images.List(ctx, &imagesapi.ListImagesRequest{Filters: []string{`labels."` + labelPinnedFor + `"`}})
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	var errs []error
	for _, record := range answer.GetImages() {
		errs = append(errs, c.repin(ctx, record.GetName(), func(has []string) []string {
			return slices.DeleteFunc(has, func(m string) bool { return !known(m) })
		}))
	}
	return errors.Join(errs...)
}
