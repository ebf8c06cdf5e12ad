package containerd

import (
	"context"
	"maps"
	"strings"
	"testing"

	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// records are the labels of images by name. As in containerd, an update writes the fields of its mask, and an empty label
// is removed.
type records map[string]map[string]string

type recordsAPI struct {
	imagesapi.ImagesClient
	records
}

func (r recordsAPI) Get(_ context.Context, of *imagesapi.GetImageRequest, _ ...grpc.CallOption) (*imagesapi.GetImageResponse, error) {
	labels, ok := r.records[of.GetName()]
	if !ok {
		return nil, status.Error(codes.NotFound, "no such image")
	}
	return &imagesapi.GetImageResponse{Image: &imagesapi.Image{Name: of.GetName(), Labels: maps.Clone(labels)}}, nil
}

func (r recordsAPI) Update(_ context.Context, of *imagesapi.UpdateImageRequest, _ ...grpc.CallOption) (*imagesapi.UpdateImageResponse, error) {
	labels := r.records[of.GetImage().GetName()]
	for _, path := range of.GetUpdateMask().GetPaths() {
		key := strings.TrimPrefix(path, "labels.")
		if labels[key] = of.GetImage().GetLabels()[key]; labels[key] == "" {
			delete(labels, key)
		}
	}
	return &imagesapi.UpdateImageResponse{}, nil
}

func (r recordsAPI) List(context.Context, *imagesapi.ListImagesRequest, ...grpc.CallOption) (*imagesapi.ListImagesResponse, error) {
	answer := &imagesapi.ListImagesResponse{}
	for name, labels := range r.records {
		if labels[labelPinnedFor] != "" {
			answer.Images = append(answer.Images, &imagesapi.Image{Name: name, Labels: maps.Clone(labels)})
		}
	}
	return answer, nil
}

func (r recordsAPI) Delete(context.Context, *imagesapi.DeleteImageRequest, ...grpc.CallOption) (*emptypb.Empty, error) {
	panic("an image is removed")
}

func TestAnImageIsPinnedAsLongAsACheckpointNeedsIt(t *testing.T) {
	image := func(migration string) checkpoint.Image {
		return checkpoint.Image{Migration: migration, Requirements: capability.Requirements{BaseImageID: "sha256:1"}}
	}
	known := func(migration string) bool { return migration == "m1" }
	pin := func(c *Client, migration string) error { return c.pin(t.Context(), image(migration)) }
	unpin := func(c *Client, migration string) error { return c.unpin(t.Context(), image(migration)) }
	steps := []struct {
		name string
		do   func(c *Client) error
		want map[string]string // of an image that has label a
	}{
		{"one needs it", func(c *Client) error { return pin(c, "m1") }, map[string]string{"a": "b", labelPinned: "pinned", labelPinnedFor: "m1"}},
		{"its agent has started again", func(c *Client) error { return pin(c, "m1") }, map[string]string{"a": "b", labelPinned: "pinned", labelPinnedFor: "m1"}},
		{"another needs it too", func(c *Client) error { return pin(c, "m2") }, map[string]string{"a": "b", labelPinned: "pinned", labelPinnedFor: "m1,m2"}},
		{"the other is unknown", func(c *Client) error { return c.sweepPins(t.Context(), known) }, map[string]string{"a": "b", labelPinned: "pinned", labelPinnedFor: "m1"}},
		{"one that did not need it has ended", func(c *Client) error { return unpin(c, "m3") }, map[string]string{"a": "b", labelPinned: "pinned", labelPinnedFor: "m1"}},
		{"none needs it", func(c *Client) error { return unpin(c, "m1") }, map[string]string{"a": "b"}},
	}
	labels := map[string]string{"a": "b"}
	c := &Client{images: recordsAPI{records: records{"sha256:1": labels}}}
	for _, step := range steps {
		if err := step.do(c); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, labels); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestAnImageThatSomebodyElseHasPinnedStaysSo(t *testing.T) {
	labels := map[string]string{labelPinned: "pinned"}
	c := &Client{images: recordsAPI{records: records{"sha256:1": labels}}}
	image := checkpoint.Image{Migration: "m", Requirements: capability.Requirements{BaseImageID: "sha256:1"}}
	if err := c.pin(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	if err := c.unpin(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{labelPinned: "pinned"}, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestRemovingACheckpointReleasesItsImage(t *testing.T) {
	labels := map[string]string{labelPinned: "pinned", labelPinnedFor: "m"}
	c := &Client{Options: Options{StagingDir: t.TempDir()}, images: recordsAPI{records: records{"sha256:1": labels}}}
	if err := c.Remove(t.Context(), checkpoint.Image{Migration: "m", Requirements: capability.Requirements{BaseImageID: "sha256:1"}}); err != nil {
		t.Fatal(err)
	}
	if len(labels) > 0 {
		t.Errorf("its labels are %v", labels)
	}
}

func TestAnImageWithoutARecordIsNotPinned(t *testing.T) {
	c := &Client{images: recordsAPI{records: records{}}}
	for _, id := range []string{"", "sha256:2"} {
		if err := c.pin(t.Context(), checkpoint.Image{Migration: "m", Requirements: capability.Requirements{BaseImageID: id}}); err != nil {
			t.Errorf("image %q: %v", id, err)
		}
	}
}
