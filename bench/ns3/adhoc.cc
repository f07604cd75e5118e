// The scenario of bench/ns3_peer.py in ns-3: hosts on a square that move by random waypoint with 802.11b cards at
// 11 Mbit/s in ad hoc mode and a range of 200 m, frames of 128 bytes, no IP. Two protocols, which are what the
// simulator's own nodes do as far as it costs anything:
//
// flood    everybody repeats every event once, after a random delay up to `jitter` ms.
// geocast  events go to a square of 220 m: greedily, hosts nearer to it than the last one wait the shorter the more
//          progress they make and keep quiet when they hear a nearer one, with one retry; inside, hosts repeat after
//          up to 50 ms unless they heard three copies. Who was silent for 5 s sends a beacon.
//
// It prints one line of JSON: CPU seconds after the warm-up, frames, and what arrived of them.

#include "ns3/core-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/wifi-module.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <iostream>
#include <set>
#include <unordered_map>
#include <vector>

using namespace ns3;

namespace
{

constexpr double RANGE_M = 200;
constexpr double HALF_M = 110;
constexpr uint32_t FRAME_BYTES = 128 - 36; // Less the headers of 802.11 and LLC, which ours counts in.
constexpr double BEACON_S = 5;
constexpr int COPIES_MAX = 3;

uint32_t g_hosts = 100;
double g_sideM = 1000;
double g_seconds = 100;
double g_warmUpS = 10;
double g_jitterMs = 100;
double g_everyS = 10;
uint32_t g_publishers = 20;
bool g_flood = false;

// What a frame says; of a beacon only the kind counts.
struct Said
{
    uint32_t event; // 0: a beacon.
    double x, y;    // The middle of the region.
    double fromX, fromY;
};

struct UnderWay
{
    Said said;
    double distanceM = 0;
    int copies = 0;
    int tries = 0;
    bool sent = false;
    EventId timer;
};

struct Host
{
    Ptr<NetDevice> card;
    Ptr<MobilityModel> place;
    Ptr<UniformRandomVariable> chance;
    std::set<uint32_t> seen;
    std::unordered_map<uint32_t, UnderWay> underWay;
    double saidS = -BEACON_S;
};

std::vector<Host> g_all;
std::unordered_map<uint32_t, std::set<uint32_t>> g_wanted; // By event: who is to hear it,
std::unordered_map<uint32_t, std::set<uint32_t>> g_heard;  // and who did.
uint32_t g_lastEvent = 0;
uint64_t g_frames = 0, g_inRange = 0, g_received = 0;
std::clock_t g_started = 0, g_looking = 0;
uint64_t g_framesBefore = 0, g_inRangeBefore = 0, g_receivedBefore = 0;

double
DistanceM(const Said& said, double x, double y)
{
    double dx = std::max(0.0, std::fabs(x - said.x) - HALF_M);
    double dy = std::max(0.0, std::fabs(y - said.y) - HALF_M);
    return std::sqrt(dx * dx + dy * dy);
}

void
Say(uint32_t index, Said said)
{
    Host& host = g_all[index];
    Vector here = host.place->GetPosition();
    said.fromX = here.x;
    said.fromY = here.y;
    host.saidS = Simulator::Now().GetSeconds();
    uint8_t bytes[FRAME_BYTES] = {};
    std::memcpy(bytes, &said, sizeof said);
    host.card->Send(Create<Packet>(bytes, FRAME_BYTES), host.card->GetBroadcast(), 0x88b5);
}

// When a frame really is on the air: whom it could reach, were there no others. What looking takes is not counted.
void
OnTheAir(uint32_t index, Ptr<const Packet>, double)
{
    std::clock_t looked = std::clock();
    g_frames++;
    Vector here = g_all[index].place->GetPosition();
    for (uint32_t other = 0; other < g_hosts; other++)
    {
        Vector there = g_all[other].place->GetPosition();
        double dx = here.x - there.x;
        double dy = here.y - there.y;
        if (other != index && dx * dx + dy * dy <= RANGE_M * RANGE_M)
        {
            g_inRange++;
        }
    }
    g_looking += std::clock() - looked;
}

void
Fire(uint32_t index, uint32_t event)
{
    UnderWay& entry = g_all[index].underWay[event];
    if (entry.tries == 2)
    {
        g_all[index].underWay.erase(event);
        return;
    }
    entry.tries++;
    Say(index, entry.said);
    if (g_flood || entry.distanceM == 0)
    {
        g_all[index].underWay.erase(event);
        return;
    }
    entry.sent = true;
    entry.timer = Simulator::Schedule(MilliSeconds(120), &Fire, index, event);
}

void
Wait(uint32_t index, const Said& said, double distanceM, double delayMs)
{
    UnderWay& entry = g_all[index].underWay[said.event];
    entry.said = said;
    entry.distanceM = distanceM;
    entry.timer = Simulator::Schedule(MicroSeconds(std::llround(delayMs * 1000)), &Fire, index, said.event);
}

void
HearAgain(uint32_t index, const Said& said)
{
    auto found = g_all[index].underWay.find(said.event);
    if (g_flood || found == g_all[index].underWay.end())
    {
        return;
    }
    UnderWay& entry = found->second;
    double senderM = DistanceM(said, said.fromX, said.fromY);
    bool done = entry.distanceM > 0 ? senderM < entry.distanceM : senderM == 0 && ++entry.copies >= COPIES_MAX;
    if (done)
    {
        entry.timer.Cancel();
        g_all[index].underWay.erase(found);
    }
}

bool
Hear(uint32_t index, Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&)
{
    g_received++;
    Said said;
    uint8_t bytes[sizeof said];
    packet->CopyData(bytes, sizeof bytes);
    std::memcpy(&said, bytes, sizeof said);
    if (said.event == 0)
    {
        return true;
    }
    Host& host = g_all[index];
    if (!host.seen.insert(said.event).second)
    {
        HearAgain(index, said);
        return true;
    }
    g_heard[said.event].insert(index);
    if (g_flood)
    {
        Wait(index, said, 0, host.chance->GetValue(0, g_jitterMs));
        return true;
    }
    Vector here = host.place->GetPosition();
    double distanceM = DistanceM(said, here.x, here.y);
    double beforeM = DistanceM(said, said.fromX, said.fromY);
    if (distanceM == 0)
    {
        Wait(index, said, 0, host.chance->GetValue(0, 50));
    }
    else if (distanceM < beforeM)
    {
        double progress = std::min(1.0, (beforeM - distanceM) / RANGE_M);
        Wait(index, said, distanceM, 40 * (1 - progress) + host.chance->GetValue(0, 5));
    }
    return true;
}

void
Publish(uint32_t index)
{
    Host& host = g_all[index];
    Said said{++g_lastEvent, host.chance->GetValue(0, g_sideM), host.chance->GetValue(0, g_sideM), 0, 0};
    auto& wanted = g_wanted[said.event];
    for (uint32_t other = 0; other < g_hosts; other++)
    {
        Vector there = g_all[other].place->GetPosition();
        if (other != index && (g_flood || DistanceM(said, there.x, there.y) == 0))
        {
            wanted.insert(other);
        }
    }
    host.seen.insert(said.event);
    Vector here = host.place->GetPosition();
    Wait(index, said, g_flood ? 0 : DistanceM(said, here.x, here.y), 0);
    Simulator::Schedule(Seconds(g_everyS), &Publish, index);
}

void
Beacon(uint32_t index)
{
    Host& host = g_all[index];
    double now = Simulator::Now().GetSeconds();
    if (now - host.saidS >= BEACON_S)
    {
        Say(index, Said{});
    }
    Simulator::Schedule(Seconds(std::max(0.001, host.saidS + BEACON_S - now)), &Beacon, index);
}

void
Begin()
{
    g_framesBefore = g_frames;
    g_inRangeBefore = g_inRange;
    g_receivedBefore = g_received;
    g_looking = 0;
    g_started = std::clock();
}

void
Build()
{
    NodeContainer nodes;
    nodes.Create(g_hosts);
    YansWifiChannelHelper channel;
    channel.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel");
    channel.AddPropagationLoss("ns3::RangePropagationLossModel", "MaxRange", DoubleValue(RANGE_M));
    YansWifiPhyHelper phy;
    phy.SetChannel(channel.Create());
    WifiMacHelper mac;
    mac.SetType("ns3::AdhocWifiMac");
    WifiHelper wifi;
    wifi.SetStandard(WIFI_STANDARD_80211b);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                 "DataMode",
                                 StringValue("DsssRate11Mbps"),
                                 "NonUnicastMode",
                                 StringValue("DsssRate11Mbps"));
    NetDeviceContainer cards = wifi.Install(phy, mac, nodes);
    std::string side = "ns3::UniformRandomVariable[Min=0|Max=" + std::to_string(g_sideM) + "]";
    ObjectFactory places("ns3::RandomRectanglePositionAllocator");
    places.Set("X", StringValue(side));
    places.Set("Y", StringValue(side));
    Ptr<PositionAllocator> anywhere = places.Create<PositionAllocator>();
    MobilityHelper mobility;
    mobility.SetPositionAllocator(anywhere);
    mobility.SetMobilityModel("ns3::RandomWaypointMobilityModel",
                              "Speed",
                              StringValue("ns3::UniformRandomVariable[Min=1|Max=10]"),
                              "Pause",
                              StringValue("ns3::ConstantRandomVariable[Constant=0]"),
                              "PositionAllocator",
                              PointerValue(anywhere));
    mobility.Install(nodes);
    g_all.resize(g_hosts);
    for (uint32_t index = 0; index < g_hosts; index++)
    {
        Host& host = g_all[index];
        host.card = cards.Get(index);
        host.place = nodes.Get(index)->GetObject<MobilityModel>();
        host.chance = CreateObject<UniformRandomVariable>();
        host.card->SetReceiveCallback(MakeBoundCallback(&Hear, index));
        DynamicCast<WifiNetDevice>(host.card)->GetPhy()->TraceConnectWithoutContext(
            "PhyTxBegin",
            MakeBoundCallback(&OnTheAir, index));
        if (!g_flood)
        {
            Simulator::Schedule(Seconds(host.chance->GetValue(0, BEACON_S)), &Beacon, index);
        }
        if (index < g_publishers)
        {
            Simulator::Schedule(Seconds(host.chance->GetValue(0, g_everyS)), &Publish, index);
        }
    }
}

} // namespace

int
main(int argc, char* argv[])
{
    uint32_t seed = 1;
    CommandLine command(__FILE__);
    command.AddValue("hosts", "how many", g_hosts);
    command.AddValue("side", "of the square, in metres", g_sideM);
    command.AddValue("seconds", "after the warm-up", g_seconds);
    command.AddValue("warmup", "seconds that are not measured", g_warmUpS);
    command.AddValue("publishers", "how many hosts publish", g_publishers);
    command.AddValue("every", "seconds between two events of one", g_everyS);
    command.AddValue("jitter", "of a flood, in milliseconds", g_jitterMs);
    command.AddValue("flood", "instead of geocast", g_flood);
    command.AddValue("seed", "of all chance", seed);
    command.Parse(argc, argv);
    RngSeedManager::SetSeed(seed);
    Build();
    Simulator::Schedule(Seconds(g_warmUpS), &Begin);
    Simulator::Stop(Seconds(g_warmUpS + g_seconds));
    Simulator::Run();
    double cpuS = double(std::clock() - g_started - g_looking) / CLOCKS_PER_SEC;
    uint64_t wanted = 0, reached = 0;
    for (auto& [event, hosts] : g_wanted)
    {
        wanted += hosts.size();
        for (uint32_t host : hosts)
        {
            reached += g_heard[event].count(host);
        }
    }
    std::cout << "{\"cpu_s\": " << cpuS << ", \"events\": " << g_lastEvent
              << ", \"frames\": " << g_frames - g_framesBefore << ", \"in_range\": " << g_inRange - g_inRangeBefore
              << ", \"received\": " << g_received - g_receivedBefore << ", \"wanted\": " << wanted
              << ", \"reached\": " << reached << "}" << std::endl;
    Simulator::Destroy();
    return 0;
}
