// Picture draws the pictures of the READMEs: process, rings, kernel and NIC.
package main

import (
	"bytes"
	"fmt"
	"html"
	"log"
	"os"
	"path/filepath"
)

//go:generate go run . ../../docs

func main() {
	for name, words := range pictures {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), draw(words), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// words has the texts of a picture, in one language.
type words struct {
	title, process, kernel, nic, network, peer             string
	memory, sq, rq, cq, control, post, bell, dma, done, wc string
	setUp, peerMemory                                      string
}

var pictures = map[string]words{
	"picture.svg": {
		title: "Process, rings, kernel and NIC", process: "your process", kernel: "Linux", nic: "NIC, or a device in software", network: "network", peer: "the peer",
		memory: "registered memory (MR)", sq: "send queue", rq: "receive queue", cq: "completion queue",
		control: "uverbs, rdma_cm", post: "post", bell: "doorbell", dma: "data", done: "completion", wc: "poll",
		setUp: "set up once: system calls", peerMemory: "its memory",
	},
	"picture.zh.svg": {
		title: "进程、环形队列、内核与网卡", process: "你的进程", kernel: "Linux 内核", nic: "网卡，或软件实现的设备", network: "网络", peer: "对端",
		memory: "已注册内存（MR）", sq: "发送队列", rq: "接收队列", cq: "完成队列",
		control: "uverbs、rdma_cm", post: "提交", bell: "门铃", dma: "数据", done: "完成", wc: "轮询",
		setUp: "一次性建立：系统调用", peerMemory: "对端内存",
	},
}

// draw makes the picture. The hot path goes down on the left, past the kernel.
func draw(w words) []byte {
	var c canvas
	c.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 372" font-family="sans-serif" font-size="14" role="img">`)
	c.printf("<title>%s</title>", html.EscapeString(w.title))
	c.printf(`<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="#444"/></marker></defs>`)
	c.printf(`<rect width="760" height="372" fill="#fff"/>`)

	c.box(10, 10, 560, 150, "#eef4fb", w.process)
	c.box(16, 42, 214, 34, "#fff", w.memory)
	for i, name := range []string{w.sq, w.rq, w.cq} {
		c.ring(30+i*130, 104, name)
	}
	c.box(430, 196, 140, 56, "#f4efe6", w.kernel)
	c.text(500, 240, "middle", w.control)
	c.box(10, 292, 560, 66, "#eef7ee", w.nic)
	c.box(650, 292, 100, 66, "#eef4fb", w.peer)
	c.text(700, 342, "middle", w.peerMemory)

	c.arrow(85, 148, 85, 292, w.post+", "+w.bell, false)
	c.arrow(345, 292, 345, 148, w.done+", "+w.wc, false)
	c.arrow(215, 148, 215, 292, "", false)
	c.line("M22 76 V292", w.dma, 28, 272)
	c.arrow(500, 160, 500, 196, "", true)
	c.arrow(500, 252, 500, 292, "", true)
	c.text(508, 182, "start", w.setUp)
	c.line("M570 325 H650", w.network, 580, 316)
	c.printf("</svg>")
	return c.Bytes()
}

type canvas struct{ bytes.Buffer }

func (c *canvas) printf(format string, args ...any) { fmt.Fprintf(c, format+"\n", args...) }

func (c *canvas) text(x, y int, anchor, text string) {
	c.printf(`<text x="%d" y="%d" text-anchor="%s" fill="#222">%s</text>`, x, y, anchor, html.EscapeString(text))
}

// box is a rectangle with a name at its upper left.
func (c *canvas) box(x, y, width, height int, fill, name string) {
	c.printf(`<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="#888"/>`, x, y, width, height, fill)
	c.text(x+10, y+20, "start", name)
}

// ring is a queue: a row of entries.
func (c *canvas) ring(x, y int, name string) {
	c.text(x, y, "start", name)
	for i := range 6 {
		fill := "#fff"
		if i < 3 {
			fill = "#9dbfe0"
		}
		c.printf(`<rect x="%d" y="%d" width="18" height="24" fill="%s" stroke="#888"/>`, x+i*18, y+14, fill)
	}
}

// arrow is a line with a tip; control is dashed.
func (c *canvas) arrow(x1, y1, x2, y2 int, name string, control bool) {
	dashes := ""
	if control {
		dashes = ` stroke-dasharray="5 4"`
	}
	c.printf(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#444"%s marker-end="url(#tip)"/>`, x1, y1, x2, y2, dashes)
	if name != "" {
		c.text(x1+8, (y1+y2)/2, "start", name)
	}
}

// line is a path with a tip at both ends.
func (c *canvas) line(path, name string, x, y int) {
	c.printf(`<path d="%s" fill="none" stroke="#444" marker-start="url(#tip)" marker-end="url(#tip)"/>`, path)
	c.text(x, y, "start", name)
}
