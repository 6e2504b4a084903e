// Copyright The plumbline authors
// SPDX-License-Identifier: Apache-2.0

package devicemetadata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/dynamic-resource-allocation/api/metadata"
	"k8s.io/dynamic-resource-allocation/api/metadata/install"
	metadatav1alpha1 "k8s.io/dynamic-resource-allocation/api/metadata/v1alpha1"
	metadatav1beta1 "k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	upstream "k8s.io/dynamic-resource-allocation/devicemetadata"

	"plumbline.dev/plumbline/internal/model/slicecodec"
)

// versions are those that a file has, the newest first; a program reads the first that it
// knows. v1alpha1 is for those of Kubernetes 1.36.
var versions = []schema.GroupVersion{metadatav1beta1.SchemeGroupVersion, metadatav1alpha1.SchemeGroupVersion}

// maxAttributes is the API's limit for a device (v1beta1, Validate_Device).
const maxAttributes = 32

// encode writes a file: the same in each version, one after the other.
func encode(m *metadata.DeviceMetadata) ([]byte, error) {
	scheme := install.NewScheme()
	codecs := serializer.NewCodecFactory(scheme)
	text := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme, jsonserializer.SerializerOptions{Pretty: true})
	var out bytes.Buffer
	for _, version := range versions {
		object, err := runtime.Encode(codecs.EncoderForVersion(text, version), m)
		if err != nil {
			return nil, fmt.Errorf("encode device metadata as %s: %w", version, err)
		}
		out.Write(object)
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

// decode reads a file.
func decode(content []byte) (*metadata.DeviceMetadata, error) {
	var m metadata.DeviceMetadata
	if err := upstream.DecodeMetadataFromStream(json.NewDecoder(bytes.NewReader(content)), &m); err != nil {
		return nil, fmt.Errorf("decode device metadata: %w", err)
	}
	return &m, nil
}

// merged are attributes with later ones over them.
func merged(attributes, late map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	all := maps.Clone(attributes)
	for name, value := range late {
		if apiequality.Semantic.DeepEqual(value, resourceapi.DeviceAttribute{}) {
			delete(all, name)
			continue
		}
		if all == nil {
			all = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
		}
		all[name] = value
	}
	return all
}

// bounded leaves out what is beyond the limit, least needed first.
func bounded(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	all := maps.Clone(attributes)
	for _, name := range slicecodec.LeastNeeded(all) {
		if len(all) <= maxAttributes {
			break
		}
		delete(all, name)
	}
	return all
}
