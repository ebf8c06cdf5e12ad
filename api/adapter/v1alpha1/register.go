package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// GroupVersion is the apiVersion of the file.
var GroupVersion = schema.GroupVersion{Group: "adapter.supercargo.dev", Version: "v1alpha1"}

// AddToScheme registers the kind and its defaults.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &MetricsAdapterConfiguration{})
	s.AddTypeDefaultingFunc(&MetricsAdapterConfiguration{}, func(obj any) { SetDefaults(obj.(*MetricsAdapterConfiguration)) })
	return nil
}

var codecs = func() serializer.CodecFactory {
	s := runtime.NewScheme()
	utilruntime.Must(AddToScheme(s))
	return serializer.NewCodecFactory(s, serializer.EnableStrict)
}()

// Decode reads a configuration in YAML or JSON, fills absent fields and validates it. Unknown and
// duplicate fields are errors.
func Decode(text []byte) (*MetricsAdapterConfiguration, error) {
	object, kind, err := codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	c, ok := object.(*MetricsAdapterConfiguration)
	if !ok {
		return nil, fmt.Errorf("decode the configuration: kind is %s, must be a MetricsAdapterConfiguration of %s", kind.Kind, GroupVersion)
	}
	SetDefaults(c)
	if err := Validate(c).ToAggregate(); err != nil {
		return nil, fmt.Errorf("check the configuration: %w", err)
	}
	return c, nil
}
