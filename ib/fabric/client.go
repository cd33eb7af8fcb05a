package fabric

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// Config holds the settings of a Client's requests. Nil and the zero value have the defaults of C's tools.
type Config struct {
	Retry     mad.Retry
	MKey      uint64 // of subnet management
	CCKey     uint64 // of congestion control
	SMKey     uint64 // of queries of subnet administration; the subnet manager trusts requests with its own key
	SMLID     uint16 // LID of subnet administration; 0 means the LID of the port's subnet manager
	PKeyIndex uint16 // of all classes but subnet management
}

// Client sends requests through a port. Its methods may be called concurrently.
type Client struct {
	port   mad.Port
	config Config

	mu     sync.Mutex
	agents map[agentKey]mad.Agent
	closed bool
}

type agentKey struct {
	class mad.Class
	oui   uint32
}

// NewClient returns a client that sends through a port. The caller closes the port.
func NewClient(port mad.Port, cfg *Config) *Client {
	c := &Client{port: port, agents: make(map[agentKey]mad.Agent)}
	if cfg != nil {
		c.config = *cfg
	}
	return c
}

// Port returns the port that the client sends through.
func (c *Client) Port() mad.Port { return c.port }

// Close closes the client's agents. Blocked calls return an error that matches net.ErrClosed.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return &verbs.Error{Op: "close", Object: "fabric client", Err: net.ErrClosed}
	}
	c.closed = true
	var errs []error
	for _, a := range c.agents {
		if err := a.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Format prints a line for every verb.
func (c *Client) Format(f fmt.State, _ rune) { fmt.Fprint(f, "client of an InfiniBand subnet") }

// agent returns the agent of a class. The first call for a class registers the agent.
func (c *Client) agent(class mad.Class, oui uint32) (mad.Agent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, &verbs.Error{Op: "use", Object: "fabric client", Err: net.ErrClosed}
	}
	key := agentKey{class, oui}
	if a := c.agents[key]; a != nil {
		return a, nil
	}
	a, err := c.port.Register(mad.AgentConfig{Class: class, OUI: oui})
	if err != nil {
		return nil, err
	}
	c.agents[key] = a
	return a, nil
}

// maxRedirects is the maximum number of redirections of a request.
const maxRedirects = 4

// Do sends a request and returns the response, whatever its status is. It follows redirections.
func (c *Client) Do(ctx context.Context, req *mad.Message) (*mad.Message, error) {
	class := req.Data.Class()
	oui := uint32(0)
	if class.Vendor2() {
		oui = req.Data.OUI()
	}
	a, err := c.agent(class, oui)
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		m, err := a.Do(ctx, req, c.config.Retry)
		if err != nil {
			return nil, err
		}
		if m.Data.Class() != class || m.Data.AttrID() != answerTo(req.Data) && m.Data.Status() == mad.StatusOK {
			return nil, failed(req, fmt.Errorf("unexpected response: %v of %s", m.Data.Method(), mad.AttrName(m.Data.Class(), m.Data.AttrID())))
		}
		if class.SubnetManagement() || m.Data.Status() != mad.StatusRedirect {
			return m, nil
		}
		var to mad.ClassPortInfo
		if err := mad.Unmarshal(m.Data[64:], &to); err != nil {
			return nil, err
		}
		if to.RedirectLID == 0 || n == maxRedirects {
			return nil, failed(req, fmt.Errorf("%w: to LID %d, after %d redirections", status(m), to.RedirectLID, n))
		}
		next := *req
		next.Addr = mad.Addr{LID: to.RedirectLID, QPN: to.RedirectQP, QKey: to.RedirectQKey, SL: to.RedirectSL, PKeyIndex: req.Addr.PKeyIndex}
		if next.Addr.QPN == 0 {
			next.Addr.QPN = 1
		}
		if next.Addr.QKey == 0 {
			next.Addr.QKey = mad.QKeyGSI
		}
		req = &next
	}
}

// answerTo returns the attribute of the response to a request.
func answerTo(req mad.MAD) mad.AttrID {
	if req.Class() == mad.ClassSA && req.Method() == mad.GetMulti {
		return mad.AttrPathRecord
	}
	return req.AttrID()
}

// do sends a request and fails if the status of the response isn't StatusOK.
func (c *Client) do(ctx context.Context, req *mad.Message) (*mad.Message, error) {
	m, err := c.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := status(m); err != nil {
		return m, failed(req, err)
	}
	return m, nil
}

// status returns the status of a response without the names that MAD.Err adds. It is for errors that name
// the request, which has the address.
func status(m *mad.Message) error { return errors.Unwrap(m.Data.Err()) }

// failed returns the error of a request that was answered.
func failed(req *mad.Message, err error) error { return req.Failed("", 0, err) }

// GSI returns the address of the port with a LID, for all classes but subnet management.
func (c *Client) GSI(lid uint16) mad.Addr {
	return mad.Addr{LID: lid, QPN: 1, QKey: mad.QKeyGSI, PKeyIndex: c.config.PKeyIndex}
}

// complete sets DrLID in a route that has both a LID and hops.
func (c *Client) complete(r mad.Route) (mad.Route, error) {
	if r.LID == 0 || len(r.Hops) == 0 || r.DrLID != 0 {
		return r, nil
	}
	attr, err := c.port.Attr()
	r.DrLID = attr.LID
	return r, err
}

// smp sends a request of subnet management and returns the attribute of the response.
func (c *Client) smp(ctx context.Context, r mad.Route, method mad.Method, id mad.AttrID, modifier uint32, data mad.Attribute) ([]byte, error) {
	r, err := c.complete(r)
	if err != nil {
		return nil, err
	}
	req := r.SMP(method, id, modifier, c.config.MKey)
	if data != nil {
		if err := mad.Marshal(req.Data.Data(), data); err != nil {
			return nil, err
		}
	}
	m, err := c.do(ctx, req)
	if err != nil {
		return nil, err
	}
	return m.Data.Data(), nil
}

// Get reads an attribute of subnet management from the node at the end of a route.
func (c *Client) Get(ctx context.Context, r mad.Route, modifier uint32, a mad.Attribute) error {
	data, err := c.smp(ctx, r, mad.Get, mad.LayoutOf(a).AttrID, modifier, nil)
	if err != nil {
		return err
	}
	return mad.Unmarshal(data, a)
}

// Set writes an attribute of subnet management, and sets a to the values in the response, which are
// those that the node has accepted. It sends zeros in reserved fields.
func (c *Client) Set(ctx context.Context, r mad.Route, modifier uint32, a mad.Attribute) error {
	data, err := c.smp(ctx, r, mad.Set, mad.LayoutOf(a).AttrID, modifier, a)
	if err != nil {
		return err
	}
	return mad.Unmarshal(data, a)
}

// GetPerf reads an attribute of performance management. The field PortSelect of a selects the port.
// GetPerf sets the other fields.
func (c *Client) GetPerf(ctx context.Context, to mad.Addr, a mad.Attribute) error {
	return c.perf(ctx, to, mad.Get, a)
}

// SetPerf writes an attribute of performance management, which resets the counters that a selects.
func (c *Client) SetPerf(ctx context.Context, to mad.Addr, a mad.Attribute) error {
	return c.perf(ctx, to, mad.Set, a)
}

func (c *Client) perf(ctx context.Context, to mad.Addr, method mad.Method, a mad.Attribute) error {
	return c.gsi(ctx, to, mad.New(mad.ClassPerf, method, mad.LayoutOf(a).AttrID, 0), a)
}

// GetCongestion reads an attribute of congestion control.
func (c *Client) GetCongestion(ctx context.Context, to mad.Addr, modifier uint32, a mad.Attribute) error {
	d := mad.New(mad.ClassCC, mad.Get, mad.LayoutOf(a).AttrID, modifier)
	d.SetMKey(c.config.CCKey)
	return c.gsi(ctx, to, d, a)
}

// SetCongestion writes an attribute of congestion control, and sets a to the values in the response,
// which are those that the node has accepted.
func (c *Client) SetCongestion(ctx context.Context, to mad.Addr, modifier uint32, a mad.Attribute) error {
	d := mad.New(mad.ClassCC, mad.Set, mad.LayoutOf(a).AttrID, modifier)
	d.SetMKey(c.config.CCKey)
	return c.gsi(ctx, to, d, a)
}

// gsi sends an attribute in d, and sets a to that of the response.
func (c *Client) gsi(ctx context.Context, to mad.Addr, d mad.MAD, a mad.Attribute) error {
	if err := mad.Marshal(d.Data(), a); err != nil {
		return err
	}
	m, err := c.do(ctx, &mad.Message{Addr: to, Data: d})
	if err != nil {
		return err
	}
	return mad.Unmarshal(m.Data.Data(), a)
}

// ClassPortInfo reads the capabilities of a class at a port.
func (c *Client) ClassPortInfo(ctx context.Context, to mad.Addr, class mad.Class) (info mad.ClassPortInfo, err error) {
	d := mad.New(class, mad.Get, mad.AttrClassPortInfo, 0)
	if class == mad.ClassCC {
		d.SetMKey(c.config.CCKey)
	}
	return info, c.gsi(ctx, to, d, &info)
}

// SM returns the address of subnet administration.
func (c *Client) SM() (mad.Addr, error) {
	if c.config.SMLID != 0 {
		return c.GSI(c.config.SMLID), nil
	}
	attr, err := c.port.Attr()
	if err != nil {
		return mad.Addr{}, err
	}
	if attr.SMLID == 0 {
		return mad.Addr{}, &verbs.Error{Op: "find", Object: fmt.Sprintf("subnet manager of port %d", attr.Port), Device: attr.Device,
			Err: errors.New("there is none"), Hint: "start one (opensm) in this subnet, or specify its LID"}
	}
	to := c.GSI(attr.SMLID)
	to.SL = attr.SMSL
	return to, nil
}

// ErrTruncated means that not all records of a response arrived: ibsim carries only the first segment.
var ErrTruncated = errors.New("the transport delivered only the first segment of the response")

// record is a pointer to a record of subnet administration.
type record[T any] interface {
	*T
	mad.Attribute
}

// Query returns all records of subnet administration that are equal to query in the fields of mask.
// If there are none, some subnet managers return an empty list. Others answer with a *mad.StatusError of
// StatusSANoRecords, which is then the cause of the error.
func Query[T any, P record[T]](ctx context.Context, c *Client, mask mad.ComponentMask, query P) ([]T, error) {
	m, err := c.query(ctx, mad.GetTable, mask, query)
	if err != nil {
		return nil, err
	}
	return records[T, P](m.Data)
}

// records decodes the records in a response.
func records[T any, P record[T]](m mad.MAD) ([]T, error) {
	raw, tableErr := Records(m)
	all := make([]T, len(raw))
	for i, r := range raw {
		if err := mad.Unmarshal(r, P(&all[i])); err != nil {
			return nil, err
		}
	}
	return all, tableErr
}

// QueryOne queries subnet administration for one record, such as a path, that is equal to query in the
// fields of mask. It sets query to that record.
func (c *Client) QueryOne(ctx context.Context, mask mad.ComponentMask, query mad.Attribute) error {
	m, err := c.query(ctx, mad.Get, mask, query)
	if err != nil {
		return err
	}
	return mad.Unmarshal(m.Data.Data(), query)
}

// MultiPath queries subnet administration for the paths from each source to each destination that are equal
// to query in the fields of mask. A query has at most mad.MaxMultiPathGIDs GIDs.
func (c *Client) MultiPath(ctx context.Context, mask mad.ComponentMask, query mad.MultiPathRecord, sources, destinations []verbs.GID) ([]mad.PathRecord, error) {
	if len(sources)+len(destinations) > mad.MaxMultiPathGIDs {
		return nil, &verbs.Error{Op: "query", Object: "MultiPathRecord",
			Err: fmt.Errorf("%d sources and %d destinations exceed its %d GIDs", len(sources), len(destinations), mad.MaxMultiPathGIDs)}
	}
	query.Sources, query.Destinations = uint8(len(sources)), uint8(len(destinations))
	for i, g := range append(slices.Clone(sources), destinations...) {
		query.GIDs[i].GID = g
	}
	m, err := c.query(ctx, mad.GetMulti, mask|mad.MaskMultiPathSources|mad.MaskMultiPathDestinations, &query)
	if err != nil {
		return nil, err
	}
	return records[mad.PathRecord](m.Data)
}

// SetRecord writes a record of subnet administration and sets r to the response. It joins a
// multicast group or registers a service. DeleteRecord undoes it.
func (c *Client) SetRecord(ctx context.Context, mask mad.ComponentMask, r mad.Attribute) error {
	m, err := c.query(ctx, mad.Set, mask, r)
	if err != nil {
		return err
	}
	return mad.Unmarshal(m.Data.Data(), r)
}

// DeleteRecord deletes a record of subnet administration.
func (c *Client) DeleteRecord(ctx context.Context, mask mad.ComponentMask, r mad.Attribute) error {
	_, err := c.query(ctx, mad.Delete, mask, r)
	return err
}

func (c *Client) query(ctx context.Context, method mad.Method, mask mad.ComponentMask, query mad.Attribute) (*mad.Message, error) {
	to, err := c.SM()
	if err != nil {
		return nil, err
	}
	d := mad.New(mad.ClassSA, method, mad.LayoutOf(query).AttrID, 0)
	d.SetSMKey(c.config.SMKey)
	d.SetComponentMask(mask)
	if err := mad.Marshal(d.Data(), query); err != nil {
		return nil, err
	}
	if method == mad.GetMulti { // the only request of which opensm expects that it is an RMPP message
		d.SetRMPPVersion(1)
		d.SetRMPPType(mad.RMPPData)
		d.SetRMPPFlags(mad.RMPPActive)
	}
	return c.do(ctx, &mad.Message{Addr: to, Data: d})
}

// Records returns the records in the response to a GetTable or GetMulti query.
func Records(m mad.MAD) ([][]byte, error) {
	var truncated error
	data := m.Data()
	if flags := m.RMPPFlags(); m.RMPPVersion() == 1 && flags&mad.RMPPActive != 0 && m.RMPPSegment() <= 1 && len(m) <= mad.Size {
		// Only the first segment arrived. If it is also the last one, RMPPLength is its length.
		switch length := int64(m.RMPPLength()); {
		case flags&mad.RMPPLast == 0:
			truncated = ErrTruncated
		case length >= 20 && length-20 < int64(len(data)):
			data = data[:length-20]
		}
	}
	size := int(m.AttrOffset()) * 8
	if size == 0 {
		return nil, truncated
	}
	var all [][]byte
	for len(data) >= size {
		all = append(all, data[:size])
		data = data[size:]
	}
	return all, truncated
}

// ResolveLID queries subnet administration for the LID of the port with a GUID.
func (c *Client) ResolveLID(ctx context.Context, guid verbs.GUID) (uint16, error) {
	attr, err := c.port.Attr()
	if err != nil {
		return 0, err
	}
	if len(attr.GIDs) == 0 {
		return 0, &verbs.Error{Op: "query", Object: fmt.Sprintf("PathRecord from port %d", attr.Port), Device: attr.Device, Err: errors.New("the port has no GID")}
	}
	path := mad.PathRecord{SGID: attr.GIDs[0], DGID: attr.GIDs[0], NumPaths: 1, Reversible: true}
	for i := range 8 {
		path.DGID[8+i] = byte(guid >> (56 - 8*i))
	}
	if err := c.QueryOne(ctx, mad.MaskPathDGID|mad.MaskPathSGID, &path); err != nil {
		return 0, err
	}
	return path.DLID, nil
}

// Ping sends a request to the responder at a port. It returns the host name in the response, and the round-trip time.
// The responder is C's ibping or ServePing. The name is returned as received.
func (c *Client) Ping(ctx context.Context, to mad.Addr, oui uint32) (host string, rtt time.Duration, err error) {
	d := mad.New(mad.ClassPing, mad.Get, 0, 0)
	d.SetOUI(oui)
	began := time.Now()
	m, err := c.do(ctx, &mad.Message{Addr: to, Data: d})
	if err != nil {
		return "", 0, err
	}
	host, _, _ = strings.Cut(string(m.Data.Data()), "\x00")
	return host, time.Since(began), nil
}

// ServePing answers pings with a host name until the context ends or the port is closed.
func ServePing(ctx context.Context, port mad.Port, oui uint32, host string) error {
	a, err := port.Register(mad.AgentConfig{Class: mad.ClassPing, OUI: oui, Methods: mad.Methods(mad.Get)})
	if err != nil {
		return err
	}
	for {
		m, err := a.Receive(ctx)
		if err != nil {
			if closeErr := a.Close(); !errors.Is(closeErr, net.ErrClosed) {
				err = errors.Join(err, closeErr)
			}
			return err
		}
		if m.Data.OUI() != oui || m.Data.Method() != mad.Get {
			continue
		}
		m.Data.SetMethod(mad.GetResp)
		m.Data.SetStatus(mad.StatusOK)
		data := m.Data.Data()
		clear(data)
		copy(data[:len(data)-1], host)
		// If the sender of a ping is gone, the pings of others must still be answered.
		if err := a.Send(ctx, m); errors.Is(err, net.ErrClosed) {
			return err
		}
	}
}
