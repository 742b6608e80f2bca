#include "io/topology.hpp"

#include "io/load.hpp"
#include "io/xml_tree.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

const DataFolders kShipped({MESHPLAN_SOURCE_DIR});

TopologyChoices choices(const std::string& device, std::int64_t nodes = 1) {
  return {.name = "mine",
          .device = load_device(device, kShipped).value(),
          .nodes = nodes,
          .port = BytesPerSecond{50e9},
          .network = LinkKind::kInfiniband,
          .source = "topo"};
}

ClusterSpec cluster(const Result<NodeTopology>& node, const TopologyChoices& with) {
  if (!node.ok()) FAIL(to_text(node.errors()));
  const Result<ClusterSpec> c = cluster_of(*node, with);
  if (!c.ok()) FAIL(to_text(c.errors()));
  return *c;
}

// A matrix of `gpus` devices and as many cards, each nearest to its own device.
std::string smi(std::int64_t gpus, const std::string& link, char blank = '\t') {
  std::string text = "\t\x1b[4mGPU0";
  for (std::int64_t i = 1; i < gpus; ++i) text += "\tGPU" + std::to_string(i);
  for (std::int64_t i = 0; i < gpus; ++i) text += "\tNIC" + std::to_string(i);
  text += "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n";
  for (std::int64_t i = 0; i < gpus; ++i) {
    text += "GPU" + std::to_string(i);
    for (std::int64_t j = 0; j < gpus; ++j) text += "\t" + (i == j ? " X " : link);
    for (std::int64_t j = 0; j < gpus; ++j) text += i == j ? "\tPIX" : "\tSYS";
    text += "\t0-47,96-143\t0\t\tN/A\n";
  }
  for (std::int64_t i = 0; i < gpus; ++i) {
    text += "NIC" + std::to_string(i);
    for (std::int64_t j = 0; j < gpus; ++j) text += i == j ? "\tPIX" : "\tSYS";
    for (std::int64_t j = 0; j < gpus; ++j) text += i == j ? "\t X " : "\tSYS";
    text += "\t\t\t\t\n";
  }
  text +=
      "\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
      "\nNIC Legend:\n\n  NIC0: mlx5_0\n";
  std::replace(text.begin(), text.end(), '\t', blank);
  return text;
}

TEST_CASE("nvidia-smi topo -m of a DGX H100 is the shipped cluster's node") {
  const ClusterSpec c =
      cluster(parse_smi_topology(smi(8, "NV18"), "x"), choices("h100-sxm-80gb", 4));
  const ClusterSpec shipped = load_cluster("dgx-h100", kShipped).value();
  CHECK(c.nodes == 4);
  CHECK(c.gpus_per_node == 8);
  REQUIRE(c.levels.size() == 2);
  CHECK(c.levels[0] == shipped.levels[0]);
  CHECK(c.levels[1].span == 0);
  CHECK(c.levels[1].bandwidth == shipped.levels[1].bandwidth);
  CHECK(c.levels[1].kind == LinkKind::kInfiniband);
  // Pasted text has blanks for tabs.
  CHECK(cluster(parse_smi_topology(smi(8, "NV18", ' '), "x"), choices("h100-sxm-80gb", 4)) == c);
}

TEST_CASE("NVLinks without a switch add up over the peers") {
  // Four A100 with four links to each of three peers: twelve of 25 GB/s.
  const ClusterSpec c = cluster(parse_smi_topology(smi(4, "NV4"), "x"), choices("a100-sxm-80gb"));
  REQUIRE(c.levels.size() == 1);
  CHECK(c.levels[0].kind == LinkKind::kNvlink);
  CHECK(c.levels[0].bandwidth.si() == Approx(300e9));
  // Twelve links to each peer are more than a device has: through switches.
  const ClusterSpec s = cluster(parse_smi_topology(smi(4, "NV12"), "x"), choices("a100-sxm-80gb"));
  CHECK(s.levels[0].kind == LinkKind::kNvswitch);
  CHECK(s.levels[0].bandwidth.si() == Approx(300e9));
}

TEST_CASE("pairs of bridged cards are a level of their own below PCIe") {
  const std::string text =
      "        GPU0    GPU1    GPU2    GPU3    CPU Affinity    NUMA Affinity\n"
      "GPU0     X      NV12    SYS     SYS     0-31            0\n"
      "GPU1    NV12     X      SYS     SYS     0-31            0\n"
      "GPU2    SYS     SYS      X      NV12    32-63           1\n"
      "GPU3    SYS     SYS     NV12     X      32-63           1\n";
  const ClusterSpec c = cluster(parse_smi_topology(text, "x"), choices("h100-pcie-80gb"));
  REQUIRE(c.levels.size() == 2);
  CHECK(c.levels[0].span == 2);
  CHECK(c.levels[0].bandwidth.si() == Approx(300e9));
  CHECK(c.levels[1].kind == LinkKind::kPcie);
  CHECK(c.levels[1].span == 4);
  CHECK(c.levels[1].bandwidth == c.device.host_link);
}

TEST_CASE("what nvidia-smi does not say is asked for") {
  const Result<NodeTopology> node = parse_smi_topology(smi(8, "NV18"), "x");
  TopologyChoices unknown = choices("h100-sxm-80gb", 2);
  unknown.port = BytesPerSecond{0};
  CHECK(to_text(cluster_of(*node, unknown).errors()).find("--nic-bandwidth") != std::string::npos);
  const std::string without_cards =
      "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-7\n"
      "GPU1\tNV18\t X \t0-7\n";
  const Result<NodeTopology> bare = parse_smi_topology(without_cards, "x");
  REQUIRE(bare.ok());
  CHECK(cluster_of(*bare, choices("h100-sxm-80gb")).ok());
  CHECK(to_text(cluster_of(*bare, choices("h100-sxm-80gb", 2)).errors())
            .find("no network card in the file") != std::string::npos);
}

TEST_CASE("matrices that are none, cut off or odd are refused") {
  const auto message = [](const std::string& text) {
    const Result<NodeTopology> node = parse_smi_topology(text, "x");
    REQUIRE_FALSE(node.ok());
    return to_text(node.errors());
  };
  CHECK(message("hello\n").find("no matrix") != std::string::npos);
  std::string cut = smi(4, "NV12");
  cut.resize(cut.find("GPU3\tNV12"));
  CHECK(message(cut).find("4 columns of devices and 3 whole rows") != std::string::npos);
  CHECK(message(smi(2, "WIFI")).find("x:2:1: error: 'WIFI' is no connection") != std::string::npos);
  const std::string uneven =
      "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV4\tSYS\t0\nGPU1\tNV4\t X \tSYS\t0\n"
      "GPU2\tSYS\tSYS\t X \t0\n";
  const Result<NodeTopology> parts = parse_smi_topology(uneven, "x");
  REQUIRE(parts.ok());
  CHECK(to_text(cluster_of(*parts, choices("a100-sxm-80gb")).errors()).find("unequal") !=
        std::string::npos);
}

std::string nccl_xml(const std::string& links, const std::string& speed = "400000") {
  std::string text = "<system version=\"1\">\n";
  for (int g = 0; g < 2; ++g) {
    const std::string n = std::to_string(g);
    text += "  <cpu numaid=\"" + n +
            "\" arch=\"x86_64\" vendor=\"GenuineIntel\">\n"
            "    <pci busid=\"0000:0" +
            n +
            ":00.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" "
            "link_width=\"16\">\n"
            "      <pci busid=\"0000:1" +
            n +
            ":00.0\" class=\"0x030200\" vendor=\"0x10de\" "
            "device=\"0x2330\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n"
            "        <gpu dev=\"" +
            n + "\" sm=\"90\" rank=\"" + n + "\" gdr=\"1\">\n" + links +
            "        </gpu>\n      </pci>\n"
            "      <pci busid=\"0000:2" +
            n +
            ":00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s "
            "PCIe\" link_width=\"16\">\n"
            "        <nic><net name=\"mlx5_" +
            n + "\" dev=\"" + n + "\" speed=\"" + speed +
            "\" port=\"1\" gdr=\"1\"/></nic>\n      </pci>\n    </pci>\n"
            "    <nic><net name=\"eth" +
            n + "\" dev=\"9\" speed=\"10000\"/></nic>\n  </cpu>\n";
  }
  return text + "</system>\n";
}

TEST_CASE("NCCL's dump: links into switches, the nearest card and its speed, the device") {
  const std::string links =
      "<nvlink target=\"0000:ff:00.0\" count=\"10\" tclass=\"0x068000\"/>"
      "<nvlink target=\"0000:fe:00.0\" count=\"8\" tclass=\"0x068000\"/>\n";
  const Result<NodeTopology> node = parse_nccl_topology(nccl_xml(links), "x.xml");
  REQUIRE(node.ok());
  CHECK(node->gpus == 2);
  CHECK(node->switched);
  CHECK(node->device == "h100-sxm-80gb");
  CHECK(node->pcie.si() == Approx(48e9));  // NCCL's figure for sixteen lanes of 32 GT/s
  CHECK(node->nics[0].nearest);
  CHECK_FALSE(node->nics[1].nearest);  // on the processor, not behind the device's switch
  TopologyChoices with = choices("h100-sxm-80gb", 2);
  with.port = BytesPerSecond{0};
  const ClusterSpec c = cluster(node, with);
  CHECK(c.levels[0].bandwidth.si() == Approx(450e9));
  CHECK(c.levels[0].kind == LinkKind::kNvswitch);
  CHECK(c.levels[1].bandwidth.si() == Approx(50e9));
}

TEST_CASE("NCCL's dump without NVLink falls back to PCIe, unknown speeds to 10 Gbit/s") {
  const Result<NodeTopology> node = parse_nccl_topology(nccl_xml("", "-1"), "x.xml");
  TopologyChoices with = choices("h100-pcie-80gb", 2);
  with.port = BytesPerSecond{0};
  const ClusterSpec c = cluster(node, with);
  REQUIRE(c.levels.size() == 2);
  CHECK(c.levels[0].kind == LinkKind::kPcie);
  CHECK(c.levels[0].bandwidth.si() == Approx(48e9));
  CHECK(c.levels[1].bandwidth.si() == Approx(1.25e9));
}

// As RCCL dumps it (tools/topo_expl/models/topo_8p_940.xml): every device has a link to every
// other.
std::string rccl(std::int64_t gpus, const std::string& device) {
  const auto bus = [](std::int64_t i) { return "0000:" + std::to_string(10 + i) + ":00.0"; };
  std::string text = "<system version=\"2\"><cpu numaid=\"0\">";
  for (std::int64_t i = 0; i < gpus; ++i) {
    text += "<pci busid=\"" + bus(i) + "\" class=\"0x120000\" vendor=\"0x1002\" device=\"" +
            device +
            "\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\" gcn=\"gfx942\">";
    for (std::int64_t j = 0; j < gpus; ++j) {
      if (j != i) text += "<xgmi target=\"" + bus(j) + "\" count=\"1\" tclass=\"0x120000\"/>";
    }
    text += "</gpu></pci>";
  }
  return text + "</cpu></system>";
}

TEST_CASE("RCCL's dump: Infinity Fabric of AMD's platforms is the shipped cluster's") {
  const Result<NodeTopology> node = parse_nccl_topology(rccl(8, "0x74a1"), "x");
  REQUIRE(node);
  CHECK(node->device == "mi300x");
  const ClusterSpec c = cluster(node, choices("mi300x"));
  const ClusterSpec shipped = load_cluster("mi300x-platform", kShipped).value();
  REQUIRE(c.levels.size() == 1);
  CHECK(c.levels[0] == shipped.levels[0]);
  CHECK(c.source.find("Infinity Fabric: 7 links of 64.0 GB/s") != std::string::npos);
  // MI350X: 153.6 GB/s a link in both directions together.
  const ClusterSpec newer = cluster(parse_nccl_topology(rccl(8, "0x75a0"), "x"), choices("mi350x"));
  CHECK(newer.levels[0].bandwidth.si() == 7 * 76.8e9);
}

TEST_CASE("XML that is broken, too deep or something else is refused with its line") {
  const auto message = [](const std::string& text) {
    const Result<NodeTopology> node = parse_nccl_topology(text, "x.xml");
    REQUIRE_FALSE(node.ok());
    return to_text(node.errors());
  };
  CHECK(message("<graphs version=\"1\"/>").find("not <system>") != std::string::npos);
  CHECK(message("<system>\n<cpu>\n</system>")
            .find("x.xml:3:9: error: </system> closes <cpu> of "
                  "line 2") != std::string::npos);
  CHECK(message("<system>\n<cpu a='>'>\n<pci/><!-- </x> --><gpu></gpu>\n</cpu></pci>\n")
            .find("x.xml:4:12: error: </pci> closes <system> of line 1") != std::string::npos);
  CHECK(message("<system/>\n</system>").find("closes nothing that is open") != std::string::npos);
  CHECK(message("<system>\n").find("<system> of line 1 is not closed") != std::string::npos);
  CHECK(message("<system a=1/>").find("an attribute that cannot be read") != std::string::npos);
  CHECK(message("<system a=\"1\" a=\"2\"/>").find("'a' twice") != std::string::npos);
  CHECK(message("<system/>\nmore").find("text behind the root") != std::string::npos);
  CHECK(message("<system><cpu/></system>").find("there are 0 devices") != std::string::npos);
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "<a>";
  CHECK(message(deep).find("nested too deeply") != std::string::npos);
  CHECK(message("plain").find("this is no XML") != std::string::npos);
  CHECK(message("").find("this is no XML") != std::string::npos);
  CHECK(message("<system/>\n<system/>").find("x.xml:2:1: error: text behind") != std::string::npos);
  CHECK(message("<system>\n  x</system>").find("x.xml:2:3: error: text between") !=
        std::string::npos);
  CHECK(message("<system a=\"1").find("an attribute that cannot be read") != std::string::npos);
  CHECK(message("<system\n?>").find("a tag does not end") != std::string::npos);
  CHECK(message("<system><1/></system>").find("followed by no name") != std::string::npos);
}

TEST_CASE("XML that would cost its reader much is refused") {
  const auto message = [](const std::string& text) {
    const Result<XmlElement> root = parse_xml(text, "x.xml");
    REQUIRE_FALSE(root.ok());
    return to_text(root.errors());
  };
  CHECK(message("<!DOCTYPE a [<!ENTITY x \"xxx\">]><a k='&x;'/>").find("this is no XML") !=
        std::string::npos);
  CHECK(message("<a><![CDATA[x]]></a>").find("text between elements") != std::string::npos);
  CHECK(message(std::string("<a/>\0<b/>", 9)).find("no such character") != std::string::npos);
  CHECK(message("<a k='&#xD800;'/>").find("the value of 'k' is no text") != std::string::npos);
  std::string many = "<a>", deep, closed;
  for (int i = 0; i < 150'000; ++i) many += "<b/>";
  CHECK(message(many + "</a>").find("too many elements") != std::string::npos);
  for (int i = 0; i < 65; ++i) deep += "<a>\n", closed += "</a>";
  CHECK(message(deep + closed).find("x.xml:65:1: error: elements are nested too deeply") !=
        std::string::npos);
}

TEST_CASE("XML attributes keep what entities stand for, comments and prologs are skipped") {
  const Result<XmlElement> root =
      parse_xml("<?xml version='1.0'?>\n<!-- a <b> -->\n<r k='&lt;&amp;&quot;x'/>\n", "x");
  REQUIRE(root.ok());
  CHECK(root->attribute("k") == "<&\"x");
  CHECK(root->line == 3);
  CHECK(root->attribute("none").empty());
  const Result<XmlElement> other = parse_xml("<r a='&x;' b='&#65;'/>", "x");
  REQUIRE(other.ok());
  CHECK(other->attribute("a") == "&x;");
  CHECK(other->attribute("b") == "A");
}

}  // namespace
}  // namespace meshplan
