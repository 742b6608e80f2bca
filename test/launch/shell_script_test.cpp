// What a script gives its training program: each construct in a script of its own, with what bash
// itself would pass.
#include <string>
#include <vector>

#include "launch/shell_words.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

constexpr const char* kRun = "\npython train.py --num-layers 1 ";

std::string words_of(const ShellScript& s) {
  std::string all;
  for (const ShellWord& word : s.words) {
    all += (all.empty() ? "" : " ") + (word.unknown.empty() ? word.text : "?" + word.unknown);
  }
  return all.substr(std::min(all.size(), std::string("--num-layers 1 ").size()));
}

std::string passed(const std::string& before, const std::string& options,
                   const ShellInputs& inputs = {}) {
  return words_of(read_shell(before + kRun + options + "\n", inputs));
}

}  // namespace

TEST_CASE("branches are followed where their conditions are known") {
  const std::string script = "case $M in 7b) TP=2;; 70b|65b) TP=8;; *) TP=1;; esac\n";
  const auto row = GENERATE(values<std::pair<const char*, const char*>>(
      {{"M=7b\n", "2"}, {"M=65b\n", "8"}, {"M=x\n", "1"}}));
  CHECK(passed(row.first + script, "--tp $TP") == std::string("--tp ") + row.second);
  CHECK(passed("D=bf16\nif [[ \"$D\" == \"fp8\" ]]; then A+=(--fp8); elif [ $D = bf16 ]; then "
               "A+=(--bf16); else A+=(--no); fi",
               "\"${A[@]}\"") == "--bf16");
  CHECK(passed("N=4\n[ $N -gt 2 ] && A=--many || A=--few", "$A") == "--many");
  CHECK(passed("N=4\nif (( N > 2 && N % 2 == 0 )); then A=--even; fi", "$A") == "--even");
  CHECK(passed("X=abc\nif [[ $X == a* && ! $X =~ ^b ]]; then A=--yes; fi", "$A") == "--yes");
  CHECK(passed("for i in 1 2 3; do A+=(--n $i); done", "${A[@]}") == "--n 1 --n 2 --n 3");
  CHECK(passed("i=0; while [ $i -lt 2 ]; do i=$((i+1)); A=\"$A --k $i\"; done", "$A") ==
        "--k 1 --k 2");
  CHECK(passed("f() { local x=$1; echo \"--$x\"; }", "$(f bf16)") == "--bf16");
}

TEST_CASE("expansions are those of the shell") {
  struct Row {
    const char* before;
    const char* options;
    const char* result;
  };
  const auto row = GENERATE(values<Row>({
      {"", "--a ${X:-\"1\"}", "--a 1"},
      {"S=${S:-\"optim_grads_params\"}", "--s $S", "--s optim_grads_params"},
      {": \"${X:=2}\"", "--x $X", "--x 2"},
      {"A=(\"--fp8-format hybrid\" \"--vocab 3\")", "${A[@]}", "--fp8-format hybrid --vocab 3"},
      {"A=()\nA+=(\n \"--fp8-format hybrid\"\n)", "${A[@]}", "--fp8-format hybrid"},
      {"A=$'--a 1\\t--b 2\\n--c 3'", "$A", "--a 1 --b 2 --c 3"},
      {"A=$'it\\'s\\x41\\101\\q'", "\"$A\"", "it'sAA\\q"},
      {"", "\"$'a'\" $\"b\"", "$'a' b"},
      {"A=()\nB=3\nC=() A+=(--b $B)", "\"${A[@]}\"", "--b 3"},
      {"A=(a b); A+=(c)", "--n ${#A[@]} ${A[1]}", "--n 3 b"},
      {"declare -A M=([7b]=2 [70b]=8); K=70b", "--tp ${M[$K]}", "--tp 8"},
      {"A=4; B=$((A * 2 + 1))", "--b $B $((A ** 2))", "--b 9 16"},
      {"B=$((A > 1 ? 5 : 6)); A=4", "--b $(( (A > 1) ? 5 : 6 ))", "--b 5"},
      {"P=/a/b/c.json", "--p ${P##*/} ${P%.json} ${P/b/x}", "--p c.json /a/b/c /a/x/c.json"},
      {"X=ABC", "--x ${X,,} ${X:0:2} ${#X}", "--x abc AB 3"},
      {"X=1; Y=X", "--y ${!Y} ${X:+set} ${Z:+set}", "--y 1 set"},
      {"N=`expr 2 \\* 4`", "--n $N $(basename /a/b)", "--n 8 b"},
      {"A=\"--x 'a|b'\"; eval C=1", "$A", "--x 'a|b'"},
      {"set -- 8 9", "--a $1 $# \"$@\"", "--a 8 2 8 9"},
      {"set -- 8 9; shift", "--a $1", "--a 9"},
  }));
  INFO(row.before << " | " << row.options);
  CHECK(passed(row.before, row.options) == row.result);
}

TEST_CASE("commands through another shell, eval and launchers reach the program") {
  const auto script = GENERATE(values<const char*>({
      "CMD=\"t.py --num-layers 1 --x 'a|b' --n $N\"\nsrun bash -c \"python --rank \\$PROC $CMD\"\n",
      "CMD=\"t.py --num-layers 1 --x 'a|b' --n $N\"\neval python $CMD\n",
      "run() { python t.py \"$@\"; }\nrun --num-layers 1 --x 'a|b' --n $N\n",
      "exec python t.py --num-layers 1 --x 'a|b' --n $N 2>&1 | tee log\n",
  }));
  INFO(script);
  CHECK(words_of(read_shell(std::string("N=3\n") + script)) == "--x a|b --n 3");
}

TEST_CASE("arguments, variables and the environment say what a script leaves open") {
  const std::string script = "TP=${1}\nPP=${2:-4}\n[ -z \"$VP\" ] && VP=1";
  const std::string options = "--tp $TP --pp $PP --vp $VP --n $NODES";
  CHECK(passed(script, options) == "--tp ?TP (argument 1) --pp 4 --vp 1 --n ?NODES");
  ShellInputs given;
  given.arguments = {"8", "2"};
  given.variables = {{"VP", "5"}};
  given.environment = {{"NODES", "16"}};
  CHECK(passed(script, options, given) == "--tp 8 --pp 2 --vp 5 --n 16");
  // --set goes before what the script assigns, the environment behind it.
  given.variables = {{"TP", "1"}};
  given.environment = {{"PP", "7"}};
  CHECK(passed(script, "--tp $TP --pp $PP", given) == "--tp 1 --pp 2");
}

TEST_CASE("Slurm's variables are what the job asks for") {
  CHECK(passed("#SBATCH --nodes=24\n#SBATCH --gres=gpu:a100:8\n#SBATCH --ntasks-per-node 1",
               "--n $SLURM_NNODES $SLURM_GPUS_ON_NODE $SLURM_NTASKS") == "--n 24 8 24");
}

TEST_CASE("a condition that is not known matters where options depend on it") {
  const std::string script = "if [ -f $DATA ]; then A=--fast; B=/x; else A=--slow; B=/y; fi\n";
  const ShellScript all = read_shell(script + kRun + "$A --data $B\n");
  REQUIRE(all.undecided.size() == 1);
  CHECK(all.undecided[0].line == 1);
  CHECK(all.undecided[0].condition == "[ -f $DATA ]");
  CHECK(all.undecided[0].options == std::vector<std::string>{"--data", "--fast", "--slow"});
  ShellInputs inputs;
  inputs.matters = [](std::string_view name) { return name != "--data"; };
  CHECK(read_shell(script + kRun + "--data $B\n", inputs).undecided.empty());
  const ShellScript asked =
      read_shell("if [ $D = fp8 ]; then A=--fp8; fi" + std::string(kRun) + "$A\n");
  REQUIRE(asked.undecided.size() == 1);
  CHECK(asked.undecided[0].variables == "D");
}

TEST_CASE("a script that stops without an argument is followed as if it were given") {
  const ShellScript s =
      read_shell("if [ -z \"$1\" ]; then echo usage; exit 1; fi\n[ $# -ge 1 ] || exit 1\nTP=$1" +
                 std::string(kRun) + "--tp $TP\n");
  CHECK(words_of(s) == "--tp ?TP (argument 1)");
  CHECK(s.undecided.empty());
}

TEST_CASE("files that a script reads or writes are its own") {
  ShellInputs inputs;
  inputs.read_file = [](const std::string& name) -> std::optional<std::string> {
    if (name == "./common.sh") return "TP=8\n";
    return std::nullopt;
  };
  CHECK(passed("source `pwd`/common.sh", "--tp $TP", inputs) == "--tp 8");
  const ShellScript none = read_shell("source env.sh" + std::string(kRun));
  CHECK(none.not_read == std::vector<std::string>{"env.sh"});
  const ShellScript written = read_shell("Z=1\ncat <<EOT > ds.json\n{\"stage\": $Z}\nEOT\n" +
                                         std::string(kRun) + "--deepspeed_config ds.json\n");
  CHECK(written.files.at("ds.json") == "{\"stage\": 1}\n");
}

TEST_CASE("what bash -x prints is read as its commands") {
  const ShellScript s = read_shell(
      "+ TP=8\n++ dirname /a/b\nsome output (of a command\n"
      "+ torchrun --nproc_per_node 8 train.py --num-layers 1 --moe-layer-freq '([0]*1+[1]*1)'\n");
  CHECK(words_of(s) == "--moe-layer-freq ([0]*1+[1]*1)");
  CHECK(s.program == "train.py");
  CHECK(s.words[2].line == 4);
}

TEST_CASE("scripts that never end, nest or repeat without end are given up") {
  CHECK(read_shell("while true; do A=\"$A x\"; done\n").words.empty());
  CHECK(read_shell("f() { f; }; f\n").words.empty());
  CHECK(read_shell(std::string(5000, '(')).words.empty());
  CHECK(read_shell(std::string(5000, '{')).words.empty());
  std::string twice = "A0=xxxxxxxxxx\n";
  for (int i = 1; i < 60; ++i) {
    const std::string before = "$A" + std::to_string(i - 1);
    twice += "A" + std::to_string(i) + "=" + before + before + "\n";
  }
  CHECK(read_shell(twice + kRun + "--x $A59\n").words.size() >= 3);
  std::string branches;
  for (int i = 0; i < 30; ++i) branches += "if [ -f f" + std::to_string(i) + " ]; then A=1; fi\n";
  CHECK(read_shell(branches + kRun).undecided.empty());
}

}  // namespace meshplan
