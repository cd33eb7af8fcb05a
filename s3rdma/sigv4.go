package s3rdma

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Credentials sign requests for S3 with AWS Signature Version 4. Programs that use an SDK sign with that instead.
type Credentials struct {
	AccessKey, SecretKey string
	Region               string // empty stands for us-east-1
	Service              string // empty stands for s3
}

const (
	algorithm       = "AWS4-HMAC-SHA256"
	timeFormat      = "20060102T150405Z"
	unsignedPayload = "UNSIGNED-PAYLOAD"
	headerDate      = "X-Amz-Date"
	headerSHA256    = "X-Amz-Content-Sha256"
	clockSkew       = 15 * time.Minute
	scopeEnd        = "aws4_request"
)

// emptySHA256 is the hash of no bytes.
var emptySHA256 = hexSHA256("")

func hexSHA256(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// Sign signs a request, with the host and all headers that begin with X-Amz-, and the Range. The body is not hashed, so
// it is not protected unless the connection is TLS.
func (c *Credentials) Sign(r *http.Request) error {
	r.Header.Set(headerDate, time.Now().UTC().Format(timeFormat))
	if r.Header.Get(headerSHA256) == "" {
		r.Header.Set(headerSHA256, unsignedPayload)
		if r.Body == nil || r.Body == http.NoBody {
			r.Header.Set(headerSHA256, emptySHA256)
		}
	}
	signed := []string{"host"}
	for name := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz-") || name == "range" {
			signed = append(signed, name)
		}
	}
	slices.Sort(signed)
	scope := c.scope(r.Header.Get(headerDate)[:8])
	r.Header.Set("Authorization", fmt.Sprintf("%s Credential=%s/%s, SignedHeaders=%s, Signature=%s", algorithm, c.AccessKey, scope,
		strings.Join(signed, ";"), c.signature(r, scope, signed)))
	return nil
}

func (c *Credentials) scope(day string) string {
	region, service := c.Region, c.Service
	if region == "" {
		region = "us-east-1"
	}
	if service == "" {
		service = "s3"
	}
	return strings.Join([]string{day, region, service, scopeEnd}, "/")
}

func (c *Credentials) signature(r *http.Request, scope string, signed []string) string {
	toSign := strings.Join([]string{algorithm, r.Header.Get(headerDate), scope, hexSHA256(canonical(r, signed))}, "\n")
	key := []byte("AWS4" + c.SecretKey)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, toSign))
}

func mac(key []byte, s string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(s))
	return h.Sum(nil)
}

// canonical returns the canonical request.
func canonical(r *http.Request, signed []string) string {
	var query []string
	for name, values := range r.URL.Query() {
		for _, v := range values {
			query = append(query, encode(name, false)+"="+encode(v, false))
		}
	}
	slices.Sort(query)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%s\n", r.Method, encodePath(r.URL.Path), strings.Join(query, "&"))
	for _, name := range signed {
		values := slices.Clone(r.Header.Values(name))
		if name == "host" {
			values = []string{r.Host}
			if r.Host == "" {
				values[0] = r.URL.Host
			}
		}
		for i, v := range values {
			values[i] = strings.Join(strings.Fields(v), " ")
		}
		fmt.Fprintf(&b, "%s:%s\n", name, strings.Join(values, ","))
	}
	fmt.Fprintf(&b, "\n%s\n%s", strings.Join(signed, ";"), r.Header.Get(headerSHA256))
	return b.String()
}

// Verify checks the signature of a request that these credentials must have signed, within a quarter of an hour. All
// headers that begin with X-Amz- must be signed. Otherwise the error matches fs.ErrPermission. It does not compare the
// body with its hash.
func (c *Credentials) Verify(r *http.Request) error {
	denied := func(why string) error {
		return new(Link).failed("verify", "signature", fmt.Errorf("%w: %s", fs.ErrPermission, why))
	}
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), algorithm+" ")
	if !ok {
		return denied("the request is not signed with " + algorithm)
	}
	var credential, names, signature string
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "Credential":
			credential = value
		case "SignedHeaders":
			names = value
		case "Signature":
			signature = value
		}
	}
	date, err := time.Parse(timeFormat, r.Header.Get(headerDate))
	if err != nil || date.Before(time.Now().Add(-clockSkew)) || date.After(time.Now().Add(clockSkew)) {
		return denied("its time is not the server's")
	}
	scope := c.scope(date.Format("20060102"))
	if subtle.ConstantTimeCompare([]byte(credential), []byte(c.AccessKey+"/"+scope)) == 0 {
		return denied("the access key or the scope is unknown")
	}
	signed := strings.Split(names, ";")
	for name, values := range r.Header {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, "x-amz-") && (!slices.Contains(signed, name) || len(values) != 1) {
			return denied("a header that begins with x-amz- is not signed, or occurs twice")
		}
	}
	if !slices.Contains(signed, "host") || !slices.IsSorted(signed) {
		return denied("the host is not signed")
	}
	if subtle.ConstantTimeCompare([]byte(signature), []byte(c.signature(r, scope, signed))) == 0 {
		return denied("the signature does not match")
	}
	return nil
}
