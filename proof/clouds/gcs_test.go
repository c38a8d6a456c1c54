// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"testing"

	"cloud.google.com/go/storage"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
)

// The documentation of objectfence contains the following code, line by line.

type gcs struct{ bucket *storage.BucketHandle }

func (g gcs) Get(ctx context.Context, key string) (objectfence.Object, error) {
	r, err := g.bucket.Object(key).NewReader(ctx)
	switch {
	case errors.Is(err, storage.ErrObjectNotExist):
		return objectfence.Object{}, fmt.Errorf("%w: %w", objectfence.ErrNotFound, err)
	case err != nil:
		return objectfence.Object{}, err
	}
	defer func() { _ = r.Close() }() // it was only read
	body, err := io.ReadAll(r)
	return objectfence.Object{Body: body, Version: strconv.FormatInt(r.Attrs.Generation, 10)}, err
}

func (g gcs) Put(ctx context.Context, key string, body []byte, replaces string) error {
	condition := storage.Conditions{DoesNotExist: true}
	if replaces != "" {
		generation, err := strconv.ParseInt(replaces, 10, 64)
		if err != nil {
			return err
		}
		condition = storage.Conditions{GenerationMatch: generation}
	}
	w := g.bucket.Object(key).If(condition).NewWriter(ctx)
	w.ChunkSize, w.CacheControl = 0, "no-store" // sent once; and no cache answers the next Get
	_, err := w.Write(body)
	if closed := w.Close(); err == nil {
		err = closed
	}
	var answer *googleapi.Error
	if errors.As(err, &answer) && answer.Code == http.StatusPreconditionFailed {
		err = fmt.Errorf("%w: %w", objectfence.ErrPrecondition, err)
	}
	return err
}

func openGCS(t *testing.T, url, bucket string, client *http.Client) objectfence.Store {
	t.Helper()
	c, err := storage.NewClient(t.Context(), option.WithEndpoint(url+"/storage/v1/"), option.WithHTTPClient(client))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return gcs{c.Bucket(bucket)}
}

// serveGCS serves the two requests of the store: a read of an object by its name, and an upload in one request, whose first
// part describes the object and whose second part is the body.
func serveGCS(o *objects) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{bucket}/{key}", func(w http.ResponseWriter, r *http.Request) {
		body, generation := o.read(r.PathValue("key"))
		if generation == 0 || r.PathValue("bucket") != bucket {
			http.Error(w, "NoSuchKey", http.StatusNotFound)
			return
		}
		w.Header().Set("X-Goog-Generation", strconv.FormatInt(generation, 10))
		_, _ = w.Write(body)
	})
	mux.HandleFunc("POST /upload/storage/v1/b/{bucket}/o", func(w http.ResponseWriter, r *http.Request) {
		refuse := func(code int) {
			w.WriteHeader(code)
			_, _ = fmt.Fprintf(w, `{"error":{"code":%d,"message":"refused"}}`, code)
		}
		if r.PathValue("bucket") != bucket {
			refuse(http.StatusNotFound)
			return
		}
		key, body, err := uploaded(r)
		if err != nil {
			refuse(http.StatusBadRequest)
			return
		}
		expected, err := strconv.ParseInt(r.URL.Query().Get("ifGenerationMatch"), 10, 64)
		if err != nil {
			refuse(http.StatusNotImplemented) // this server supports only conditional writes
			return
		}
		generation, written := o.write(key, body, func(version int64) bool { return version == expected })
		if !written {
			refuse(http.StatusPreconditionFailed)
			return
		}
		sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
		_, _ = fmt.Fprintf(w, `{"name":%q,"generation":"%d","crc32c":%q}`, key, generation, base64.StdEncoding.EncodeToString(sum))
	})
	return mux
}

func uploaded(r *http.Request) (key string, body []byte, err error) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return "", nil, err
	}
	parts := multipart.NewReader(r.Body, params["boundary"])
	first, err := parts.NextPart()
	if err != nil {
		return "", nil, err
	}
	var description struct{ Name, CacheControl string }
	if err := json.NewDecoder(first).Decode(&description); err != nil {
		return "", nil, err
	}
	if description.CacheControl != "no-store" {
		return "", nil, errors.New("upload: the object may be cached: want no-store")
	}
	second, err := parts.NextPart()
	if err != nil {
		return "", nil, err
	}
	body, err = io.ReadAll(second)
	return description.Name, body, err
}
