// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// overlay is what a user writes on top of the base.
const overlay = `
namespace: locks
resources: [../base]
images:
  - {name: registry.example.com/lockkeeper, newName: registry.internal/lockkeeper, newTag: v1.2.3}
replicas:
  - {name: lockkeeper, count: 3}
configMapGenerator:
  - name: lockkeeper
    behavior: replace
    literals: ["servers=zk:2181", "principals.json={}"]
secretGenerator:
  - name: lockkeeper
    behavior: replace
    literals: [token-keys=keys, "zookeeper-auth=service:password"]
  - name: lockkeeper-tls
    behavior: replace
    type: kubernetes.io/tls
    literals: [tls.crt=certificate, tls.key=key]
`

// render returns the objects of a kustomization, each decoded as strictly as the API server does.
func render(t *testing.T, folder string) (objects []any, text string) {
	t.Helper()
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	require.NoError(t, err)
	for _, r := range rendered.Resources() {
		content, err := r.AsYAML()
		require.NoError(t, err)
		object, err := decode(t, content)
		require.NoError(t, err, "%s", content)
		objects, text = append(objects, object), text+string(content)
	}
	return objects, text
}

func TestKustomizeBaseHasEachManifest(t *testing.T) {
	objects, _ := render(t, "kubernetes")
	kinds := map[string]int{}
	for _, o := range objects {
		switch o.(type) {
		case *appsv1.Deployment:
			kinds["deployment"]++
		case *corev1.Secret:
			kinds["secret"]++
		}
	}
	require.Equal(t, map[string]int{"deployment": 1, "secret": 2}, kinds)
	files, err := filepath.Glob("kubernetes/*.yaml")
	require.NoError(t, err)
	require.Len(t, objects, len(files), "one object a file, besides the kustomization, and two in the file of secrets")
}

func TestOverlayReplacesAllPlaceholdersOfBase(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(folder, "base"), os.DirFS("kubernetes")))
	require.NoError(t, os.Mkdir(filepath.Join(folder, "overlay"), 0o700))
	write(t, folder, "overlay/kustomization.yaml", overlay)
	objects, text := render(t, filepath.Join(folder, "overlay"))
	require.NotContains(t, text, "REPLACE")
	names := map[string]bool{}
	var deployment *appsv1.Deployment
	for _, o := range objects {
		switch o := o.(type) {
		case *appsv1.Deployment:
			deployment = o
		case *corev1.ConfigMap:
			names[o.Name] = true
		case *corev1.Secret:
			names[o.Name] = true
		}
	}
	require.NotNil(t, deployment)
	require.Equal(t, "locks", deployment.Namespace)
	require.Equal(t, int32(3), *deployment.Spec.Replicas)
	pod := deployment.Spec.Template.Spec
	require.Equal(t, "registry.internal/lockkeeper:v1.2.3", pod.Containers[0].Image)
	// Generated names have a hash, so that a change starts new pods: the references must follow.
	require.True(t, names[pod.Containers[0].Env[0].ValueFrom.ConfigMapKeyRef.Name])
	for _, source := range pod.Volumes[0].Projected.Sources {
		if source.ConfigMap != nil {
			require.True(t, names[source.ConfigMap.Name])
		} else {
			require.True(t, names[source.Secret.Name], source.Secret.Name)
		}
	}
}
