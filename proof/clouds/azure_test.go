// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
)

// The documentation of objectfence contains the following code, line by line.

type azure struct{ container *container.Client }

func (a azure) Get(ctx context.Context, key string) (objectfence.Object, error) {
	out, err := a.container.NewBlobClient(key).DownloadStream(ctx, nil)
	switch {
	case bloberror.HasCode(err, bloberror.BlobNotFound):
		return objectfence.Object{}, fmt.Errorf("%w: %w", objectfence.ErrNotFound, err)
	case err != nil:
		return objectfence.Object{}, err
	}
	defer func() { _ = out.Body.Close() }() // it was only read
	body, err := io.ReadAll(out.Body)
	object := objectfence.Object{Body: body}
	if out.ETag != nil {
		object.Version = string(*out.ETag)
	}
	return object, err
}

func (a azure) Put(ctx context.Context, key string, body []byte, replaces string) error {
	condition := &blob.ModifiedAccessConditions{IfMatch: to.Ptr(azcore.ETag(replaces))}
	if replaces == "" {
		condition = &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}
	}
	once := policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
	_, err := a.container.NewBlockBlobClient(key).Upload(once, streaming.NopCloser(bytes.NewReader(body)),
		&blockblob.UploadOptions{AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: condition}})
	if bloberror.HasCode(err, bloberror.ConditionNotMet, bloberror.BlobAlreadyExists) {
		err = fmt.Errorf("%w: %w", objectfence.ErrPrecondition, err)
	}
	return err
}

func openAzure(t *testing.T, url, name string, client *http.Client) objectfence.Store {
	t.Helper()
	c, err := container.NewClientWithNoCredential(url+"/"+name, &container.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: client},
	})
	require.NoError(t, err)
	return azure{c}
}

// serveAzure serves the two requests of the store: Get Blob and Put Blob.
func serveAzure(o *objects) http.Handler {
	mux := http.NewServeMux()
	etag := func(version int64) string { return fmt.Sprintf(`"0x8D%d"`, version) }
	refuse := func(w http.ResponseWriter, status int, code bloberror.Code) {
		w.Header().Set("X-Ms-Error-Code", string(code))
		w.WriteHeader(status)
	}
	mux.HandleFunc("GET /{container}/{key}", func(w http.ResponseWriter, r *http.Request) {
		body, version := o.read(r.PathValue("key"))
		switch {
		case r.PathValue("container") != bucket:
			refuse(w, http.StatusNotFound, bloberror.ContainerNotFound)
		case version == 0:
			refuse(w, http.StatusNotFound, bloberror.BlobNotFound)
		default:
			w.Header().Set("ETag", etag(version))
			_, _ = w.Write(body)
		}
	})
	mux.HandleFunc("PUT /{container}/{key}", func(w http.ResponseWriter, r *http.Request) {
		match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
		body, err := io.ReadAll(r.Body)
		switch {
		case r.PathValue("container") != bucket:
			refuse(w, http.StatusNotFound, bloberror.ContainerNotFound)
			return
		case err != nil || r.Header.Get("X-Ms-Blob-Type") != "BlockBlob" || (match == "") != (none == "*"):
			refuse(w, http.StatusBadRequest, bloberror.InvalidHeaderValue)
			return
		}
		version, written := o.write(r.PathValue("key"), body, func(version int64) bool {
			return none == "*" && version == 0 || match != "" && version != 0 && match == etag(version)
		})
		switch {
		case written:
			w.Header().Set("ETag", etag(version))
			w.WriteHeader(http.StatusCreated)
		case none == "*":
			refuse(w, http.StatusConflict, bloberror.BlobAlreadyExists)
		default:
			refuse(w, http.StatusPreconditionFailed, bloberror.ConditionNotMet)
		}
	})
	return mux
}
