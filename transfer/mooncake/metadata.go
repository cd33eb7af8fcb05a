package mooncake

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// requestTimeout limits the time of a request.
const requestTimeout = 10 * time.Second

// listenerAddress is where a node listens.
type listenerAddress struct {
	Host string `json:"ip_or_host_name"`
	Port uint16 `json:"rpc_port"`
}

func segmentKey(name string) string {
	if strings.Contains(name, "/") {
		return "mooncake/" + name
	}
	return "mooncake/ram/" + name
}

func listenerKey(name string) string { return "mooncake/rpc_meta/" + name }

// get gets a value from the metadata server.
func (c *Config) get(ctx context.Context, key string, v any) error {
	b, err := c.request(ctx, http.MethodGet, key, nil)
	if err == nil {
		err = decode(b, v)
	}
	if err != nil {
		return fmt.Errorf("key %q of the metadata server: %w", key, err)
	}
	return nil
}

// put replaces a value. There are servers that refuse to replace one.
func (c *Config) put(ctx context.Context, key string, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, _ = c.request(ctx, http.MethodDelete, key, nil)
		_, err = c.request(ctx, http.MethodPut, key, b)
	}
	if err != nil {
		return fmt.Errorf("key %q of the metadata server: %w", key, err)
	}
	return nil
}

func (c *Config) request(ctx context.Context, method, key string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	u, err := url.Parse(c.Metadata)
	if err != nil {
		return nil, err
	}
	query := u.Query()
	query.Set("key", key)
	u.RawQuery = query.Encode()
	q, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	a, err := c.HTTP.Do(q)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d", method, a.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = violation("more than %d bytes", maxAnswer)
	}
	return b, err
}
